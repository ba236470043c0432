#include "data/datasets.h"
#include "data/image_file.h"
#include "data/loader.h"
#include "data/resize.h"
#include "image_writers.h"
#include "support.h"

namespace outsize {
namespace {

class Images : public FileTest {
 protected:
  std::vector<std::uint8_t> read(const std::string& name, PixelForm form) const {
    ImageFile image(path(name), form);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(image.rows() * image.columns() * size_of(form)));
    image.read({0, image.rows()}, {0, image.columns()}, bytes.data());
    return bytes;
  }
  std::vector<std::uint16_t> labels(const std::string& name) const {
    const auto bytes = read(name, PixelForm::labels);
    std::vector<std::uint16_t> values(bytes.size() / 2);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  void folder(const std::string& name) const { std::filesystem::create_directories(path(name)); }
};

const Pixels kColours = Pixels::make(5, 7, 3, [](int r, int c, int k) { return 40 * r + 5 * c + 11 * k; });

TEST_F(Images, PngPixelsAreThoseWritten) {
  write_png(path("a.png"), kColours);
  EXPECT_EQ(read("a.png", PixelForm::rgb), kColours.bytes);
  write_png(path("i.png"), kColours, {.interlaced = true});
  EXPECT_EQ(read("i.png", PixelForm::rgb), kColours.bytes);
  // 0.299 · 10 + 0.587 · 200 + 0.114 · 50 = 126.09
  write_png(path("c.png"), Pixels::make(1, 1, 3, [](int, int, int k) { return k == 0 ? 10 : k == 1 ? 200 : 50; }));
  EXPECT_EQ(read("c.png", PixelForm::grey), (std::vector<std::uint8_t>{126}));
  // Alpha is dropped, grey is repeated, of 16 bits the high ones stay, a palette is looked up.
  write_png(path("rgba.png"), Pixels::make(1, 2, 4, [](int, int c, int k) { return 10 * c + k; }), {PNG_COLOR_TYPE_RGBA});
  EXPECT_EQ(read("rgba.png", PixelForm::rgb), (std::vector<std::uint8_t>{0, 1, 2, 10, 11, 12}));
  write_png(path("grey.png"), Pixels::make(1, 2, 1, [](int, int c, int) { return 100 + c; }), {PNG_COLOR_TYPE_GRAY});
  EXPECT_EQ(read("grey.png", PixelForm::rgb), (std::vector<std::uint8_t>{100, 100, 100, 101, 101, 101}));
  EXPECT_EQ(read("grey.png", PixelForm::grey), (std::vector<std::uint8_t>{100, 101}));
  write_png(path("deep.png"), Pixels::make(1, 2, 2, [](int, int c, int k) { return k == 0 ? 7 + c : 0; }),
            {PNG_COLOR_TYPE_GRAY, 16});
  EXPECT_EQ(read("deep.png", PixelForm::grey), (std::vector<std::uint8_t>{7, 8}));
  write_png(path("palette.png"), Pixels::make(1, 3, 1, [](int, int c, int) { return c; }), {PNG_COLOR_TYPE_PALETTE});
  EXPECT_EQ(read("palette.png", PixelForm::rgb), (std::vector<std::uint8_t>{0, 0, 0, 17, 0, 0, 34, 0, 0}));
}

TEST_F(Images, LabelsAreTheNumbersInTheFile) {
  write_png(path("palette.png"), Pixels::make(1, 3, 1, [](int, int c, int) { return c; }), {PNG_COLOR_TYPE_PALETTE});
  EXPECT_EQ(labels("palette.png"), (std::vector<std::uint16_t>{0, 1, 2}));
  write_png(path("grey.png"), Pixels::make(1, 2, 1, [](int, int c, int) { return 200 + c; }), {PNG_COLOR_TYPE_GRAY});
  EXPECT_EQ(labels("grey.png"), (std::vector<std::uint16_t>{200, 201}));
  write_png(path("deep.png"), Pixels::make(1, 2, 2, [](int, int c, int k) { return k == 0 ? 1 : c; }), {PNG_COLOR_TYPE_GRAY, 16});
  EXPECT_EQ(labels("deep.png"), (std::vector<std::uint16_t>{256, 257}));
  // Four pixels of two bits in a byte: 3, 1, 0, 2.
  Pixels packed{1, 4, 1, {0b11010010}};
  write_png(path("packed.png"), packed, {PNG_COLOR_TYPE_GRAY, 2});
  EXPECT_EQ(labels("packed.png"), (std::vector<std::uint16_t>{3, 1, 0, 2}));
  write_png(path("colour.png"), kColours);
  expect_contains(refusal([&] { labels("colour.png"); }), "found one in colour");
  write_jpeg(path("a.jpg"), kColours);
  expect_contains(refusal([&] { labels("a.jpg"); }), "found a JPEG image");
}

// Blocks of one colour survive the transform but for the rounding of colours.
TEST_F(Images, JpegPixelsAreThoseWritten) {
  const Pixels blocks = Pixels::make(16, 32, 3, [](int, int c, int k) { return c < 16 ? 60 + 30 * k : 200 - 20 * k; });
  write_jpeg(path("a.jpg"), blocks);
  const auto found = read("a.jpg", PixelForm::rgb);
  ASSERT_EQ(found.size(), blocks.bytes.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i / 3 % 32 == 15 || i / 3 % 32 == 16) continue;  // colours are stored for two columns at once
    EXPECT_NEAR(found[i], blocks.bytes[i], 2) << i;
  }
  write_jpeg(path("grey.jpg"), Pixels::make(8, 8, 1, [](int, int, int) { return 77; }));
  EXPECT_EQ(read("grey.jpg", PixelForm::grey), std::vector<std::uint8_t>(64, 77));
  EXPECT_EQ(read("grey.jpg", PixelForm::rgb), std::vector<std::uint8_t>(192, 77));
  // Inks, inverted as Adobe's: red is c · k / 255.
  write_jpeg(path("inks.jpg"), Pixels::make(8, 8, 4, [](int, int, int k) { return k == 3 ? 128 : 100 + 50 * k; }));
  const auto inks = read("inks.jpg", PixelForm::rgb);
  EXPECT_NEAR(inks[0], 50, 2);
  EXPECT_NEAR(inks[1], 75, 2);
  EXPECT_NEAR(inks[2], 100, 2);
}

TEST_F(Images, WindowsAreWindows) {
  write_png(path("a.png"), kColours);
  ImageFile image(path("a.png"), PixelForm::rgb);
  for (const auto& [rows, columns] : {std::pair<Interval, Interval>{{2, 4}, {1, 3}}, {{0, 1}, {6, 7}}, {{4, 5}, {0, 7}}}) {
    std::vector<std::uint8_t> part(static_cast<std::size_t>(rows.size() * columns.size() * 3));
    image.read(rows, columns, part.data());
    std::size_t i = 0;
    for (std::int64_t r = rows.lo; r < rows.hi; ++r)
      for (std::int64_t c = 3 * columns.lo; c < 3 * columns.hi; ++c)
        EXPECT_EQ(part[i++], kColours.bytes[static_cast<std::size_t>(r * 21 + c)]);
  }
}

// Too large to be kept: windows down the image, and one above.
TEST_F(Images, WindowsOfALargeImage) {
  const auto value = [](std::int64_t r, std::int64_t c) { return static_cast<std::uint8_t>(r * 31 + c); };
  write_png(path("large.png"), Pixels::make(4200, 8200, 1, [&](int r, int c, int) { return value(r, c); }), {PNG_COLOR_TYPE_GRAY});
  ImageFile labels(path("large.png"), PixelForm::labels);  // 69 MB
  for (std::int64_t row : {100, 3000, 4198, 7}) {
    std::vector<std::uint16_t> part(2 * 3);
    labels.read({row, row + 2}, {5000, 5003}, reinterpret_cast<std::uint8_t*>(part.data()));
    for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(part[static_cast<std::size_t>(i)], value(row + i / 3, 5000 + i % 3)) << row;
  }
}

TEST(Resize, LinearWeights) {
  // Twice as wide: centres at 0.25, 0.75, 1.25, 1.75 of the old pixels, whose centres are 0.5 and 1.5.
  Resizer wider({1, 2}, {1, 4}, 1);
  wider.add(std::vector<std::uint8_t>{0, 100}.data());
  EXPECT_EQ(wider.take(), (std::vector<std::uint8_t>{0, 25, 75, 100}));
  // Half as high: new pixel 0 weighs rows 0 to 2 by 0.75, 0.75, 0.25 (a triangle of reach 2 about 1), of 1.75 altogether.
  Resizer lower({4, 1}, {2, 1}, 1);
  const std::vector<std::uint8_t> column{0, 70, 140, 210};
  for (const std::uint8_t& value : column) lower.add(&value);
  EXPECT_EQ(lower.take(), (std::vector<std::uint8_t>{50, 160}));
  // The same size is the same image.
  Resizer same({2, 2}, {2, 2}, 2);
  const std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6, 7, 8};
  same.add(pixels.data());
  same.add(pixels.data() + 4);
  EXPECT_EQ(same.take(), pixels);
}

// Every truncation is found; a flipped byte is found or harmless.
TEST_F(Images, DamageIsFound) {
  const Pixels noise = Pixels::make(9, 9, 3, [](int r, int c, int k) { return (r * 97 + c * 61 + k * 29) * 17 % 251; });
  write_png(path("a.png"), noise);
  write_jpeg(path("a.jpg"), noise);
  for (const char* name : {"a.png", "a.jpg"}) {
    const std::string good = content(name);
    for (std::size_t length = 0; length + 2 < good.size(); ++length) {
      write("cut", good.substr(0, length));
      EXPECT_THROW(read("cut", PixelForm::rgb), SampleError) << name << " cut to " << length << " of " << good.size();
    }
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x55);
      write("bad", bad);
      try {
        ImageFile image(path("bad"), PixelForm::rgb);
        if (image.rows() * image.columns() > 1 << 20) continue;
        read("bad", PixelForm::rgb);
      } catch (const SampleError&) {
      }
    }
  }
  write("empty.png", "");
  expect_contains(refusal([&] { read("empty.png", PixelForm::rgb); }), "empty.png: is empty");
  write("text.jpg", "hello");
  expect_contains(refusal([&] { read("text.jpg", PixelForm::rgb); }), "text.jpg: is neither a PNG nor a JPEG image");
  expect_contains(refusal([&] { read("none.png", PixelForm::rgb); }), "none.png: cannot be opened: No such file");
}

// A header of a few hundred bytes must not make a reader ask for the memory of the image that it claims to be.
TEST_F(Images, HeadersThatClaimTooMuchAreRefused) {
  for (const bool interlaced : {false, true}) {
    write_png(path("a.png"), kColours, {.interlaced = interlaced});
    write(interlaced ? "interlaced.png" : "large.png", claiming(content("a.png"), 30000, 30000));
    write(interlaced ? "high_interlaced.png" : "high.png", claiming(content("a.png"), 900000, 1));
  }
  write_jpeg(path("a.jpg"), kColours);
  std::string jpeg = content("a.jpg");
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x75\x30\x75\x30");
  write("large.jpg", jpeg);
  std::string arithmetic = content("a.jpg");
  arithmetic[frame + 1] = '\xc9';
  write("arithmetic.jpg", arithmetic);
  expect_contains(refusal([&] { ImageFile(path("arithmetic.jpg"), PixelForm::rgb); }), "arithmetic codes is not read");
  for (const char* name : {"high.png", "high_interlaced.png"})
    expect_contains(refusal([&] { ImageFile(path(name), PixelForm::rgb); }), "bytes cannot hold 900000 x 1 pixels");
  for (const char* name : {"large.png", "interlaced.png", "large.jpg"})
    expect_contains(refusal([&] { ImageFile(path(name), PixelForm::rgb); }), "bytes cannot hold 30000 x 30000 pixels");
}

}  // namespace
}  // namespace outsize
