#include "data/datasets.h"

#include <set>

#include "../write_npz.h"
#include "data/loader.h"
#include "data/npy_file.h"
#include "data/slide_file.h"
#include "image_writers.h"
#include "support.h"

namespace outsize {
namespace {

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::int32_t> integers(const std::vector<std::byte>& bytes) {
  std::vector<std::int32_t> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::byte> window_of(const Sample& sample, const Box& window) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(window.elements()) * 4);
  sample.read_x(window, DType::f32, bytes.data());
  return bytes;
}

// All pixels (i.e. their value; mean 0 and deviation 1/255 keep bytes) of a sample.
DataOptions bytes_as_they_are(std::int64_t rows, std::int64_t columns, std::int64_t classes) {
  return {.spec = {DType::f32, {1, 3, rows, columns}, DType::i32, {1}, classes}, .mean = {0}, .deviation = {1 / 255.0}};
}

class Datasets : public FileTest {
 protected:
  std::string folder(const std::string& name) const {
    std::filesystem::create_directories(path(name));
    return path(name);
  }
  // An image of one colour.
  void image(const std::string& name, int grey, int rows = 4, int columns = 4) const {
    write_png(path(name), Pixels::make(rows, columns, 3, [&](int, int, int) { return grey; }));
  }
  // cats and dogs, two images each.
  std::string animals(const std::string& name = "animals") const {
    folder(name + "/dog");
    folder(name + "/cat");
    image(name + "/cat/1.png", 10);
    image(name + "/cat/2.PNG", 20);
    image(name + "/dog/1.png", 30);
    image(name + "/dog/2.png", 40);
    write(name + "/cat/notes.txt", "not an image");
    write(name + "/.hidden", "");
    return path(name);
  }
  std::string npy(const std::string& name, const Array& array) const {
    auto bytes = make_npy_header(array.type, array.shape);
    bytes.insert(bytes.end(), array.data.begin(), array.data.end());
    return write(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  std::string refuse(const std::string& what, const DataOptions& options) const {
    return refusal([&] { make_dataset(what, options); });
  }
};

TEST_F(Datasets, AFolderAClass) {
  const auto data = make_dataset(animals(), bytes_as_they_are(4, 4, 2));
  EXPECT_EQ(data->size(), 4);
  EXPECT_EQ(classes_of(path("animals")), 2);
  EXPECT_FALSE(has_test_part(path("animals")));
  expect_contains(data->description(), "4 images of 2 classes, scaled to cover 4 x 4, mean 0 0 0");
  Loader loader(data, {DType::f32, {4, 3, 4, 4}, DType::i32, {4}, 2}, {.shuffle = false});
  const Batch& batch = loader.batch(0);
  EXPECT_EQ(integers(batch.y), (std::vector<std::int32_t>{0, 0, 1, 1}));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(floats(batch.x)[48 * i], 10.0F * static_cast<float>(i + 1));
}

TEST_F(Datasets, NormalisedByImageNetsUnlessTold) {
  DataOptions options = bytes_as_they_are(4, 4, 2);
  options.mean = options.deviation = {};
  const auto data = make_dataset(animals(), options);
  const auto x = floats(window_of(*data->open(0), Box::whole({3, 4, 4})));
  EXPECT_FLOAT_EQ(x[0], static_cast<float>((10 / 255.0 - 0.485) / 0.229));
  EXPECT_FLOAT_EQ(x[16], static_cast<float>((10 / 255.0 - 0.456) / 0.224));
  EXPECT_FLOAT_EQ(x[32], static_cast<float>((10 / 255.0 - 0.406) / 0.225));
  expect_contains(data->description(), "mean 0.485 0.456 0.406, deviation 0.229 0.224 0.225");
  options.mean = {0.1, 0.2};
  EXPECT_EQ(refuse(path("animals"), options), "expected one mean or 3, one a channel; found 2");
  options.mean = {};
  options.deviation = {0};
  expect_contains(refuse(path("animals"), options), "must be above 0");
}

TEST_F(Datasets, TrainAndTestAreTwoSets) {
  animals("set/train");
  folder("set/test/dog");
  image("set/test/dog/9.png", 90);
  DataOptions options = bytes_as_they_are(4, 4, 2);
  EXPECT_TRUE(has_test_part(path("set")));
  EXPECT_EQ(classes_of(path("set")), 2);
  EXPECT_EQ(make_dataset(path("set"), options)->size(), 4);
  options.part = Part::test;
  const auto test = make_dataset(path("set"), options);
  EXPECT_EQ(test->size(), 1);
  std::int32_t label = -1;
  test->open(0)->read_y({}, DType::i32, reinterpret_cast<std::byte*>(&label));
  EXPECT_EQ(label, 1);  // as in the training set, which also has cats
  folder("set/test/eel");
  image("set/test/eel/9.png", 90);
  expect_contains(refuse(path("set"), options), "class 'eel' is not one of the training set's: cat, dog");
  expect_contains(refuse(path("set/train"), options), "has no test set of its own");
}

// 8 x 12 covers 4 x 4 as 4 x 6; the Loader takes the middle.
TEST_F(Datasets, ImagesAreScaledOrCropped) {
  folder("a/one");
  const auto ramp = [](int r, int c, int) { return 10 * r + c; };
  write_png(path("a/one/a.png"), Pixels::make(8, 12, 3, ramp));
  DataOptions options = bytes_as_they_are(4, 4, 1);
  const auto scaled = make_dataset(path("a"), options);
  EXPECT_EQ(scaled->open(0)->x_extents(), (Dims{3, 4, 6}));
  Loader loader(scaled, options.spec, {});
  // Rows 2 and 3 (its second) average to 25 plus columns 4 and 5 to 4.5: the triangle's wings cancel on a ramp.
  EXPECT_NEAR(floats(loader.batch(0).x)[5], 25 + 4.5, 0.51);
  options.fit = Fit::crop;
  const auto cropped = make_dataset(path("a"), options);
  EXPECT_EQ(cropped->open(0)->x_extents(), (Dims{3, 8, 12}));
  Loader middle(cropped, options.spec, {});
  EXPECT_FLOAT_EQ(floats(middle.batch(0).x)[0], 24);  // row 2, column 4
  EXPECT_FLOAT_EQ(floats(middle.batch(0).x)[15], 57);
}

TEST_F(Datasets, AnImageThatWouldGrowBeyondBoundsIsSkipped) {
  folder("a/one");
  image("a/one/long.png", 1, 1, 40'000);
  const auto data = make_dataset(path("a"), bytes_as_they_are(1000, 1000, 1));
  expect_contains(refusal([&] { data->open(0); }),
                  "long.png: its 1 x 40000 pixels, scaled to cover 1000 x 1000, would be 1000 x 40000000");
}

TEST_F(Datasets, DamagedImagesAreSkippedUnlessStrict) {
  animals();
  write("animals/cat/0.jpg", "\xff\xd8\xff broken");
  const DataOptions options = bytes_as_they_are(4, 4, 2);
  std::vector<std::string> warnings;
  Loader loader(make_dataset(path("animals"), options), options.spec,
                {.shuffle = false, .warn = [&](std::string_view text) { warnings.emplace_back(text); }});
  EXPECT_FLOAT_EQ(floats(loader.batch(0).x)[0], 10);  // the next one
  EXPECT_FLOAT_EQ(floats(loader.batch(1).x)[0], 10);
  ASSERT_EQ(warnings.size(), 1U);
  expect_contains(warnings[0], "animals/cat/0.jpg: damaged JPEG image");
  Loader strict(make_dataset(path("animals"), options), options.spec, {.shuffle = false, .strict = true});
  expect_contains(refusal([&] { strict.batch(0); }), "animals/cat/0.jpg: damaged JPEG image");
}

TEST_F(Datasets, LabelMaps) {
  folder("s/images");
  folder("s/masks");
  image("s/images/a.png", 50, 4, 6);
  write_png(path("s/masks/a.png"), Pixels::make(4, 6, 1, [](int r, int c, int) { return r >= 2 && c >= 3 ? 2 : 0; }),
            {PNG_COLOR_TYPE_GRAY});
  DataOptions options = bytes_as_they_are(4, 4, 3);
  options.spec.y_shape = {1, 4, 4};
  const auto data = make_dataset(path("s"), options);
  Loader loader(data, options.spec, {});
  EXPECT_EQ(integers(loader.batch(0).y), (std::vector<std::int32_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 2, 2}));
  // Twice as large: each label four times.
  options.spec.x_shape = {1, 3, 8, 8};
  options.spec.y_shape = {1, 8, 8};
  Loader larger(make_dataset(path("s"), options), options.spec, {});
  const auto labels = integers(larger.batch(0).y);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(labels[i], i / 8 >= 4 && i % 8 >= 4 ? 2 : 0) << i;

  options.spec.classes = 2;
  Loader outside(make_dataset(path("s"), options), options.spec, {});
  expect_contains(refusal([&] { outside.batch(0); }),
                  "s/masks/a.png: label 2 (element 36 of it) is not one of the model's 2 classes");
  options.spec.classes = 3;
  image("s/images/b.png", 50);
  expect_contains(refuse(path("s"), options), "s/images/b.png: expected its label map in " + path("s/masks/b.png"));
  write_png(path("s/masks/b.png"), Pixels::make(4, 5, 1, [](int, int, int) { return 0; }), {PNG_COLOR_TYPE_GRAY});
  const std::string uneven = path("s/masks/b.png") + ": expected the 4 x 4 pixels of " + path("s/images/b.png") + ", found 4 x 5";
  std::vector<std::string> warnings;
  LoaderOptions skipping{.shuffle = false, .warn = [&](std::string_view text) { warnings.emplace_back(text); }};
  Loader skips(make_dataset(path("s"), options), options.spec, skipping);
  EXPECT_EQ(skips.batch(1).y, skips.batch(0).y);  // a.png in its place
  EXPECT_EQ(warnings, (std::vector<std::string>{"skipped: " + uneven}));
  skipping.strict = true;
  Loader strict(make_dataset(path("s"), options), options.spec, skipping);
  EXPECT_EQ(refusal([&] { strict.batch(1); }), uneven);
  options.spec.y_shape = {1};
  expect_contains(refuse(path("s"), options), "has a label for each pixel, but the model takes one a sample");
}

TEST_F(Datasets, Lists) {
  image("a.png", 10);
  image("b, c.png", 20);
  const DataOptions options = bytes_as_they_are(4, 4, 3);
  const auto label = [&](const std::string& text, std::int64_t index) {
    std::int32_t value = -1;
    make_dataset(write("l.csv", text), options)->open(index)->read_y({}, DType::i32, reinterpret_cast<std::byte*>(&value));
    return value;
  };
  EXPECT_EQ(label("file,label\na.png,2\nb, c.png,1\n", 0), 2);
  EXPECT_EQ(label("a.png, 2\r\n\r\n# more\r\n\"b, c.png\", 1\r\n", 1), 1);
  EXPECT_EQ(label("a.png,tumour\nb, c.png,normal", 0), 1);  // by name: normal, tumour
  EXPECT_EQ(classes_of(path("l.csv")), 2);
  const auto refused = [&](const std::string& text) { return refuse(write("l.csv", text), options); };
  expect_contains(refused("a.png"), "l.csv:1: expected file,label, found 'a.png'");
  expect_contains(refused("a.png,0\nz.png,1"), "l.csv:2: there is no file");
  expect_contains(refused("a.txt,0"), "l.csv:1: 'a.txt' is neither an image nor a slide");
  expect_contains(refused("a.png,"), "l.csv:1: expected a label after the comma");
  expect_contains(refused("# none\na.png,-1"), "l.csv:2: label -1 of " + path("a.png") + " is not one of 0 to 2147483646");
  expect_contains(refused("a.png,2147483647"), "l.csv:1: label 2147483647 of");
  expect_contains(refused("file,label"), "names no images");
  expect_contains(refused("a.png,1\nb, c.png,3"), "l.csv: label 3 of " + path("b, c.png") +
                                                      " is not one of the model's 3 classes: expected 0 to 2; or give --classes 4");
}

TEST_F(Datasets, NpyIsReadFromItsFile) {
  std::vector<float> x(6 * 2);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const DataOptions options{.spec = {DType::f64, {2, 2}, DType::i32, {2}, 3}};
  npy("x.npy", array_of(ElementType::f32, {6, 2}, x));
  npy("y.npy", array_of<std::int64_t>(ElementType::i64, {6}, {0, 1, 2, 0, 1, 2}));
  Loader loader(make_dataset(path("x.npy"), options), options.spec, {.shuffle = false, .threads = 2});
  const Batch& batch = loader.batch(2);
  std::vector<double> found(4);
  std::memcpy(found.data(), batch.x.data(), batch.x.size());
  EXPECT_EQ(found, (std::vector<double>{8, 9, 10, 11}));
  EXPECT_EQ(integers(batch.y), (std::vector<std::int32_t>{1, 2}));

  npy("train.npy", array_of(ElementType::f32, {6, 2}, x));
  expect_contains(refuse(path("train.npy"), options), "expected its labels or targets beside it in " + path("train_y.npy"));
  npy("train_y.npy", array_of<std::int64_t>(ElementType::i64, {6}, {0, 1, 2, 0, 1, 3}));
  expect_contains(refuse(path("train.npy"), options), "train_y.npy: label 3 of sample 5 is not one of the model's 3 classes");
  write("train.npy", content("x.npy").substr(0, content("x.npy").size() - 1));
  expect_contains(refuse(path("train.npy"), options), "train.npy: expected 48 bytes for float32 of shape [6, 2], found 47");
}

TEST_F(Datasets, FingerprintsTellSetsApart) {
  const DataOptions options{.spec = {DType::f32, {2, 2}, DType::i32, {2}, 3}};
  const auto arrays = [&](float x, std::int64_t y) {
    npy("x.npy", array_of<float>(ElementType::f32, {2, 2}, {0, 1, 2, x}));
    npy("y.npy", array_of<std::int64_t>(ElementType::i64, {2}, {0, y}));
    return make_dataset(path("x.npy"), options)->fingerprint();
  };
  EXPECT_EQ(arrays(3, 1), arrays(3, 1));
  EXPECT_EQ((std::set<std::uint32_t>{arrays(3, 1), arrays(3, 2), arrays(4, 1), arrays(4, 2)}).size(), 4U);

  const auto photos = [&] { return make_dataset(path("animals"), bytes_as_they_are(4, 4, 2))->fingerprint(); };
  animals();
  std::set<std::uint32_t> found{photos()};
  EXPECT_TRUE(found.contains(photos()));
  write("animals/dog/2.png", "of another size");
  EXPECT_TRUE(found.insert(photos()).second);
  std::filesystem::rename(path("animals/dog/2.png"), path("animals/dog/3.png"));
  EXPECT_TRUE(found.insert(photos()).second);
  std::filesystem::rename(path("animals/dog/3.png"), path("animals/cat/3.png"));
  EXPECT_TRUE(found.insert(photos()).second);
}

// 65 parts of 1 MiB, of which 64 are looked at: each begins where a sixty-fourth of the array does.
TEST_F(Datasets, FingerprintsOfLargeArraysLookEverywhere) {
  Array array = make_array(ElementType::u8, {65 << 20});
  const std::size_t bytes = array.data.size();
  const auto changed_at = [&](std::size_t at) {
    array.data[at] = std::byte{1};
    const std::uint32_t found = ArrayReader(array).fingerprint();
    array.data[at] = std::byte{0};
    return found;
  };
  const std::uint32_t before = ArrayReader(array).fingerprint();
  for (const std::size_t at : {std::size_t{0}, bytes / 64 * 31, bytes / 64 * 63 + (1 << 20) - 1}) EXPECT_NE(changed_at(at), before);
}

TEST_F(Datasets, ArraysKnowTheirClasses) {
  npy("x.npy", make_array(ElementType::f32, {4, 2}));
  EXPECT_EQ(classes_of(path("x.npy")), std::nullopt);
  npy("y.npy", array_of<std::int64_t>(ElementType::i64, {4}, {0, -100, 6, 2}));
  EXPECT_EQ(classes_of(path("x.npy")), 7);
  npy("y.npy", make_array(ElementType::f32, {4}));
  EXPECT_EQ(classes_of(path("x.npy")), std::nullopt);
  npy("y.npy", make_array(ElementType::u64, {4, 3}));  // of tokens
  EXPECT_EQ(classes_of(path("x.npy")), std::nullopt);
  write_npz(path("maps.npz"), {{"y", array_of<std::uint8_t>(ElementType::u8, {1, 2, 2}, {0, 3, 2, 0})}});
  EXPECT_EQ(classes_of(path("maps.npz")), 4);
  write_npz(path("wide.npz"), {{"y", array_of<std::int64_t>(ElementType::i64, {1}, {std::int64_t{1} << 40})}});
  EXPECT_EQ(classes_of(path("wide.npz")), std::nullopt);
  EXPECT_EQ(classes_of(path("absent.npz")), std::nullopt);
}

TEST_F(Datasets, Refusals) {
  const DataOptions options = bytes_as_they_are(4, 4, 2);
  expect_contains(refuse(path("nothing"), options), "nothing: cannot be opened: there is no such file or folder");
  expect_contains(refuse(write("a.doc", "x"), options),
                  "a.doc: expected a folder with a sub-folder of PNG or JPEG images for each class");
  expect_contains(refuse("generated:cells", options), "'cells' is not generated; expected generated:slides");
  expect_contains(refuse(folder("empty"), options), "expected a sub-folder of images for each class");
  animals();
  folder("animals/fox");
  expect_contains(refuse(path("animals"), options), "animals/fox: has no images (.png, .jpg, .jpeg)");
  image("animals/fox/1.png", 1);
  EXPECT_EQ(refuse(path("animals"), options), path("animals") + ": has 3 classes, but the model only 2; give --classes 3");

  DataOptions other = options;
  other.spec.x_shape = {1, 4, 4, 4};
  expect_contains(refuse(path("animals"), other), "images have 3 channels, or 1 in grey, but the model takes 4");
  other = options;
  other.spec.x_dtype = DType::i32;
  expect_contains(refuse(path("animals"), other), "has images, but the model takes [1, 3, 4, 4] of i32");
  other = options;
  other.spec.classes = 0;
  expect_contains(refuse(path("animals"), other), "has labels, but the model takes targets");
  other = options;
  other.spec.y_shape = {1, 4, 4};
  expect_contains(refuse(path("animals"), other), "expected the folders images and masks");
  write_npz(path("a.npz"), {{"x", make_array(ElementType::f32, {0, 3, 4, 4})}, {"y", make_array(ElementType::i32, {0})}});
  expect_contains(refuse(path("a.npz"), options), "a.npz: has no samples");
}

TEST_F(Datasets, SyntheticSamplesAreReadByWindowToo) {
  DataOptions options{.spec = {DType::f32, {1, 3, 6, 10}, DType::i32, {1}, 4}, .seed = 3};
  const auto data = make_dataset("", options);
  const auto same = data->open(5);
  const auto whole = floats(window_of(*same, Box::whole({3, 6, 10})));
  const Box window({1, 2, 3}, {3, 5, 8});
  const auto part = floats(window_of(*same, window));
  std::size_t i = 0;
  for (std::size_t c = 1; c < 3; ++c)
    for (std::size_t r = 2; r < 5; ++r)
      for (std::size_t x = 3; x < 8; ++x) EXPECT_EQ(part[i++], whole[60 * c + 10 * r + x]);
  options.part = Part::test;
  const auto test = make_dataset("", options);
  EXPECT_NE(floats(window_of(*test->open(5), Box::whole({3, 6, 10}))), whole);
}

}  // namespace
}  // namespace outsize
