#include <map>
#include <random>

#include "data/datasets.h"
#include "data/loader.h"
#include "data/slide_file.h"
#include "support.h"

#if OUTSIZE_OPENSLIDE
#include <openslide/openslide.h>
#endif

namespace outsize {
namespace {

DataOptions options_of(std::int64_t rows, std::int64_t columns, std::int64_t classes) {
  return {.spec = {DType::f32, {1, 3, rows, columns}, DType::i32, {1}, classes}, .seed = 7, .mean = {0}, .deviation = {1 / 255.0}};
}

std::vector<float> pixels(const Sample& sample, const Box& window) {
  std::vector<float> values(static_cast<std::size_t>(window.elements()));
  sample.read_x(window, DType::f32, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

std::int32_t label(const Sample& sample) {
  std::int32_t value = -1;
  sample.read_y({}, DType::i32, reinterpret_cast<std::byte*>(&value));
  return value;
}

// Every pixel is the same in every window, here over all borders of cells and lattices; labels of positions too.
TEST(GeneratedSlides, WindowsAgreeWithTheWhole) {
  DataOptions options = options_of(0, 0, 9);
  options.spec.y_shape = {1, 0, 0};
  const auto data = make_dataset("generated:slides:size=1100x1300", options);
  const auto sample = data->open(3);
  const Dims extents{3, 1100, 1300};
  EXPECT_EQ(sample->x_extents(), extents);
  const auto whole = pixels(*sample, Box::whole(extents));
  std::vector<std::int32_t> labels(1100 * 1300);
  sample->read_y(Box::whole({1100, 1300}), DType::i32, reinterpret_cast<std::byte*>(labels.data()));
  EXPECT_GT(std::ranges::count_if(labels, [](std::int32_t value) { return value > 0; }), 100);
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    const std::int64_t r = random() % 1050, c = random() % 1250, height = 1 + random() % 50, width = 1 + random() % 50;
    const Box window({i % 3, r, c}, {3, r + height, c + width});
    const auto part = pixels(*data->open(3), window);
    std::vector<std::int32_t> part_labels(static_cast<std::size_t>(height * width));
    sample->read_y({{r, c}, {r + height, c + width}}, DType::i32, reinterpret_cast<std::byte*>(part_labels.data()));
    for (std::size_t k = 0; k < part.size(); ++k) {
      const auto at = static_cast<std::int64_t>(k);
      const std::int64_t row = r + at / width % height, column = c + at % width, channel = i % 3 + at / (width * height);
      ASSERT_EQ(part[k], whole[static_cast<std::size_t>((channel * 1100 + row) * 1300 + column)]) << to_string(window) << k;
      if (k < part_labels.size()) {
        ASSERT_EQ(part_labels[k], labels[static_cast<std::size_t>(row * 1300 + column)]);
      }
    }
  }
}

// A hundred thousand pixels a side, of which a window is all that is made.
TEST(GeneratedSlides, AnySize) {
  const DataOptions options = options_of(64, 64, 2);
  const auto data = make_dataset("generated:slides:size=100000,count=3", options);
  EXPECT_EQ(data->size(), 3);
  const auto sample = data->open(2);
  EXPECT_EQ(sample->x_extents(), (Dims{3, 100'000, 100'000}));
  const Box corner({0, 99'990, 99'980}, {3, 100'000, 100'000});
  EXPECT_EQ(pixels(*sample, corner), pixels(*data->open(2), corner));
  EXPECT_NE(pixels(*sample, corner), pixels(*data->open(1), corner));
  Loader loader(data, options.spec, {.augment = {true, true}});
  EXPECT_EQ(loader.batch(0).x_shape, (Dims{1, 3, 64, 64}));

  const auto varied = make_dataset("generated:slides:size=4000x2000,vary", options);
  EXPECT_EQ(varied->size(), 0);
  std::set<std::int64_t> heights;
  for (std::int64_t i = 0; i < 20; ++i) {
    const Dims extents = varied->open(i)->x_extents();
    EXPECT_TRUE(extents[1] > 1999 && extents[1] <= 4000 && extents[2] > 999 && extents[2] <= 2000) << to_string(extents);
    heights.insert(extents[1]);
  }
  EXPECT_GT(heights.size(), 15U);
}

// The mean of |p(r, c) − p(r, c + 2)| over that of |p(r, c) − p(r + 2, c)|, where they are large: upright or lying stripes.
double uprightness(const std::vector<float>& x, std::int64_t rows, std::int64_t columns) {
  double across = 0, down = 0;
  const auto at = [&](std::int64_t r, std::int64_t c) { return x[static_cast<std::size_t>(r * columns + c)]; };
  for (std::int64_t r = 0; r + 2 < rows; ++r)
    for (std::int64_t c = 0; c + 2 < columns; ++c) {
      const double right = std::abs(at(r, c) - at(r, c + 2)), below = std::abs(at(r, c) - at(r + 2, c));
      if (right > 100 && right < 150 && below < 30) across += 1;
      if (below > 100 && below < 150 && right < 30) down += 1;
    }
  return (across + 1) / (down + 1);
}

std::vector<float> scaled_down(const std::vector<float>& x, std::int64_t rows, std::int64_t columns, std::int64_t by) {
  std::vector<float> small(static_cast<std::size_t>(rows / by * (columns / by)));
  for (std::int64_t r = 0; r < rows / by * by; ++r)
    for (std::int64_t c = 0; c < columns / by * by; ++c)
      small[static_cast<std::size_t>(r / by * (columns / by) + c / by)] +=
          x[static_cast<std::size_t>(r * columns + c)] / static_cast<float>(by * by);
  return small;
}

TEST(GeneratedSlides, TheClassIsInSmallThingsAlone) {
  constexpr std::int64_t kSide = 512;
  const auto data = make_dataset("generated:slides", options_of(kSide, kSide, 2));
  std::map<std::int32_t, int> seen;
  int told_small = 0;
  for (std::int64_t i = 0; i < 16; ++i) {
    const auto sample = data->open(i);
    const auto x = pixels(*sample, {{0, 0, 0}, {1, kSide, kSide}});
    const bool upright = uprightness(x, kSide, kSide) > 1;
    EXPECT_EQ(upright, label(*sample) == 0) << i;
    ++seen[label(*sample)];
    const auto small = scaled_down(x, kSide, kSide, 8);
    told_small += std::abs(std::log(uprightness(small, kSide / 8, kSide / 8))) > 0.7;
  }
  EXPECT_GE(seen[0], 2);
  EXPECT_GE(seen[1], 2);
  EXPECT_LE(told_small, 4);
  int ones = 0;
  for (std::int64_t i = 0; i < 400; ++i) ones += label(*data->open(i));
  EXPECT_NEAR(ones, 200, 40);  // four standard deviations
}

TEST(GeneratedSlides, Refusals) {
  const DataOptions options = options_of(64, 64, 2);
  const auto refused = [&](const std::string& what) { return refusal([&] { make_dataset(what, options); }); };
  expect_contains(refused("generated:slides:size=100001"), "of at most 100000 pixels a side, found 'size=100001'");
  expect_contains(refused("generated:slides:size=4x"), "expected size=H or size=HxW");
  expect_contains(refused("generated:slides:count=0"), "expected count=N");
  expect_contains(refused("generated:slides:sise=4"), "unknown option 'sise=4'; expected size=HxW, count=N or vary");
  expect_contains(refusal([] { make_dataset("generated:slides", options_of(0, 0, 2)); }), "slides need a size");
}

#if OUTSIZE_OPENSLIDE

// The whole slide at once by OpenSlide itself; ours by windows. CMU-1-Small-Region has one level of 2967 x 2220.
TEST(Slides, WindowsAreOpenSlidesPixels) {
  const std::string path = OUTSIZE_SHARED_DATA "/CMU-1-Small-Region.svs";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  constexpr std::int64_t kRows = 2967, kColumns = 2220;
  std::vector<std::uint32_t> whole(kRows * kColumns);
  openslide_t* slide = openslide_open(path.c_str());
  openslide_read_region(slide, whole.data(), 0, 0, 0, kColumns, kRows);
  ASSERT_EQ(openslide_get_error(slide), nullptr);
  openslide_close(slide);

  const auto data = make_dataset(path, options_of(256, 256, 2));
  EXPECT_EQ(data->size(), 1);
  const auto sample = data->open(0);
  EXPECT_EQ(sample->x_extents(), (Dims{3, kRows, kColumns}));
  EXPECT_EQ(label(*sample), 0);
  for (const Box& window :
       {Box({0, 0, 0}, {3, 40, 50}), Box({1, 700, 1000}, {2, 1100, 1300}), Box({0, 2900, 2200}, {3, kRows, kColumns})}) {
    const auto found = pixels(*sample, window);
    const std::int64_t height = window.extent(1), width = window.extent(2);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t row = window.lo[1] + at / width % height, column = window.lo[2] + at % width;
      const std::int64_t channel = window.lo[0] + at / (width * height);
      const std::uint32_t pixel = whole[static_cast<std::size_t>(row * kColumns + column)];
      ASSERT_EQ(pixel >> 24, 255U);
      ASSERT_FLOAT_EQ(found[i], static_cast<float>(pixel >> (16 - 8 * channel) & 255)) << to_string(window) << i;
    }
  }
  Loader loader(data, options_of(256, 256, 2).spec, {.augment = {true, true}, .threads = 2});
  const auto first = loader.batch(0).x;
  EXPECT_NE(loader.batch(1).x, first);  // another place
  expect_contains(refusal([&] { open_slide(path, 3); }), "has the levels 0 to 0, but level 3 is asked for");
}

#else

TEST(Slides, WindowsAreOpenSlidesPixels) { GTEST_SKIP() << "this build has no OpenSlide"; }

#endif

class SlideFiles : public FileTest {};

TEST_F(SlideFiles, OthersAreRefused) {
  const std::string file = write("a.svs", "no slide");
  if (slides_are_read())
    EXPECT_EQ(refusal([&] { open_slide(file, 0); }), file + ": is no slide or tiled TIFF that OpenSlide reads");
  else
    expect_contains(refusal([&] { make_dataset(file, options_of(4, 4, 2)); }), "install libopenslide-dev and build again");
}

}  // namespace
}  // namespace outsize
