#include "data/loader.h"

#include <atomic>
#include <chrono>
#include <cstring>

#include "data/datasets.h"
#include "support.h"

namespace outsize {
namespace {

// Sample i is a 4 x 4 map (or `sizes[i]` square) whose element (r, c) is 10000 i + 100 r + c; y is i % 4, or the map itself.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}

  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> bad;
  bool maps = false;
  bool uneven = false;  // samples take their time, each another
  mutable std::atomic<int> opened = 0;

  std::string name() const override { return "numbers"; }
  std::string description() const override { return "numbers"; }
  std::int64_t size() const override { return size_; }
  std::unique_ptr<Sample> open(std::int64_t index) const override {
    ++opened;
    if (uneven) std::this_thread::sleep_for(std::chrono::microseconds(index * 7919 % 13 * 100));
    if (std::ranges::find(bad, index) != bad.end()) sample_error("number {} is damaged", index);
    return std::make_unique<Number>(*this, index);
  }

 private:
  class Number final : public Sample {
   public:
    Number(const Numbers& set, std::int64_t index)
        : index_(index), side_(set.sizes.empty() ? 4 : set.sizes[static_cast<std::size_t>(index)]), map_(set.maps) {}
    Dims x_extents() const override { return {1, side_, side_}; }
    Dims y_extents() const override { return map_ ? Dims{side_, side_} : Dims{}; }
    void read_x(const Box& window, DType, std::byte* out) const override { write<float>(window[1], window[2], out); }
    void read_y(const Box& window, DType, std::byte* out) const override {
      if (map_) return write<std::int32_t>(window[0], window[1], out);
      const auto label = static_cast<std::int32_t>(index_ % 4);
      std::memcpy(out, &label, sizeof label);
    }

   private:
    template <class T>
    void write(Interval rows, Interval columns, std::byte* out) const {
      T* values = reinterpret_cast<T*>(out);
      for (std::int64_t r = rows.lo; r < rows.hi; ++r)
        for (std::int64_t c = columns.lo; c < columns.hi; ++c) *values++ = static_cast<T>(10000 * index_ + 100 * r + c);
    }
    std::int64_t index_, side_;
    bool map_;
  };
  std::int64_t size_;
};

const BatchSpec kSpec{DType::f32, {3, 1, 4, 4}, DType::i32, {3}, 4};

template <class T = float>
std::vector<T> values(const std::vector<std::byte>& bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

// The sample numbers that a batch was made of.
std::vector<std::int64_t> numbers(const Batch& batch) {
  std::vector<std::int64_t> found;
  const auto x = values(batch.x);
  for (std::size_t i = 0; i < x.size(); i += x.size() / static_cast<std::size_t>(batch.samples))
    found.push_back(static_cast<std::int64_t>(x[i]) / 10000);
  return found;
}

TEST(Loader, ReadsInOrderAndEndsWithASmallerBatch) {
  Loader loader(std::make_shared<Numbers>(7), kSpec, {.shuffle = false});
  EXPECT_EQ(loader.batches_per_epoch(), 3);
  EXPECT_EQ(numbers(loader.batch(0)), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(values<std::int32_t>(loader.batch(1).y), (std::vector<std::int32_t>{3, 0, 1}));
  const Batch& last = loader.batch(2);
  EXPECT_EQ(last.samples, 1);
  EXPECT_EQ(last.x_shape, (Dims{1, 1, 4, 4}));
  EXPECT_EQ(last.y_shape, (Dims{1}));
  EXPECT_EQ(last.x.size(), 16U * 4U);
  EXPECT_EQ(loader.samples_of(2), 1);
  EXPECT_EQ(loader.samples_of(3), 3);
  EXPECT_EQ(numbers(loader.batch(3)), (std::vector<std::int64_t>{0, 1, 2}));

  Loader full(std::make_shared<Numbers>(7), kSpec, {.shuffle = false, .drop_last = true});
  EXPECT_EQ(full.batches_per_epoch(), 2);
  EXPECT_EQ(numbers(full.batch(2)), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(Loader, EachEpochHasAllSamplesInItsOwnOrder) {
  Loader loader(std::make_shared<Numbers>(20), kSpec, {.seed = 5});
  std::vector<std::vector<std::int64_t>> epochs(2);
  for (std::int64_t step = 0; step < 14; ++step)
    for (std::int64_t number : numbers(loader.batch(step))) epochs[static_cast<std::size_t>(step / 7)].push_back(number);
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) {
    std::ranges::sort(epoch);
    ASSERT_EQ(epoch.size(), 20U);
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(epoch[i], static_cast<std::int64_t>(i));
  }
}

// Every batch, for no thread to four, with damaged samples, crops and flips, and samples that take unequal time.
TEST(Loader, ThreadsChangeNothing) {
  const auto data = std::make_shared<Numbers>(23);
  data->bad = {4, 5, 17};
  data->uneven = true;
  std::vector<std::vector<std::byte>> expected;
  for (int threads : {0, 1, 2, 4}) {
    Loader loader(data, kSpec, {.augment = {true, true}, .seed = 9, .threads = threads, .warn = [](std::string_view) {}});
    for (std::size_t step = 0; step < 24; ++step) {
      const Batch& batch = loader.batch(static_cast<std::int64_t>(step));
      if (threads == 0) expected.push_back(batch.x);
      EXPECT_EQ(batch.x, expected[step]) << threads << " threads, step " << step;
    }
    EXPECT_EQ(loader.skipped(), 3);
  }
}

TEST(Loader, ResumesAnywhere) {
  std::vector<std::vector<std::byte>> expected;
  Loader whole(std::make_shared<Numbers>(10), kSpec, {.augment = {true, true}, .seed = 2, .threads = 2});
  for (std::int64_t step = 0; step < 12; ++step) expected.push_back(whole.batch(step).x);
  const auto data = std::make_shared<Numbers>(10);
  Loader resumed(data, kSpec, {.augment = {true, true}, .seed = 2, .threads = 2});
  resumed.seek(7);
  for (std::size_t step = 7; step < 12; ++step) EXPECT_EQ(resumed.batch(static_cast<std::int64_t>(step)).x, expected[step]);
  EXPECT_LE(data->opened, 3 * (5 + 4));  // its own batches and two ahead for each thread, none before
  // Forward, backward, the same again.
  for (std::size_t step : {11, 2, 2, 3, 0}) EXPECT_EQ(resumed.batch(static_cast<std::int64_t>(step)).x, expected[step]) << step;
}

TEST(Loader, DamagedSamplesAreReplacedByTheNext) {
  const auto data = std::make_shared<Numbers>(6);
  data->bad = {1, 2, 5};
  std::vector<std::string> warnings;
  Loader loader(data, kSpec, {.shuffle = false, .warn = [&](std::string_view text) { warnings.emplace_back(text); }});
  EXPECT_EQ(numbers(loader.batch(0)), (std::vector<std::int64_t>{0, 3, 3}));
  EXPECT_EQ(loader.skipped(), 2);
  EXPECT_EQ(numbers(loader.batch(1)), (std::vector<std::int64_t>{3, 4, 0}));  // after the last comes the first
  loader.batch(2);
  EXPECT_EQ(warnings, (std::vector<std::string>{"skipped: number 1 is damaged", "skipped: number 2 is damaged",
                                                "skipped: number 5 is damaged"}));
  EXPECT_EQ(loader.skipped(), 3);
}

// Any window of a batch whose x was left out is that part of x, whatever was replaced, left out, cropped or mirrored in it.
TEST(Loader, WindowsOfWhatWasLeftOut) {
  const auto data = std::make_shared<Numbers>(11);
  data->bad = {4, 5, 9};
  for (const bool replace : {true, false}) {
    LoaderOptions options{.replace = replace, .augment = {true, true}, .seed = 9, .warn = [](std::string_view) {}};
    Loader whole(data, kSpec, options), parts(data, kSpec, options);
    parts.leave_out();
    for (std::int64_t step = 0; step < 8; ++step) {
      const Batch &expected = whole.batch(step), &found = parts.batch(step);
      EXPECT_FALSE(expected.windows);
      EXPECT_TRUE(found.x.empty());
      EXPECT_EQ(found.x_shape, expected.x_shape);
      EXPECT_EQ(found.y, expected.y);
      EXPECT_EQ(found.samples, expected.samples);
      const auto x = values(expected.x);
      for (const Box& window : {Box::whole(expected.x_shape), Box({expected.samples - 1, 0, 1, 0}, {expected.samples, 1, 3, 3})}) {
        std::vector<float> seen(static_cast<std::size_t>(window.elements()));
        found.windows(window, std::as_writable_bytes(std::span(seen)).data());
        auto next = seen.begin();
        for_each_row(expected.x_shape, window, [&](std::int64_t offset, std::int64_t count) {
          for (std::int64_t i = offset; i < offset + count; ++i) EXPECT_EQ(*next++, x[static_cast<std::size_t>(i)]);
        });
      }
    }
    EXPECT_EQ(parts.skipped(), 3);
  }
}

// A label or a target for every pixel may take as much as the image: where x is left out, so is such a y.
TEST(Loader, WindowsOfALargeYThatWasLeftOut) {
  const BatchSpec labels{DType::f32, {2, 1, 600, 500}, DType::i32, {2, 600, 500}, 4};
  const BatchSpec targets{DType::f32, {2, 1, 600, 500}, DType::f32, {2, 3, 300, 250}, 0};
  for (const BatchSpec& spec : {labels, targets}) {
    const auto data = make_synthetic_dataset({.spec = spec, .seed = 5});
    // Cropped views hang over the border, where no label names a class.
    BatchSpec seen = spec;
    if (spec.classes > 0) seen.ignored_label = -1;
    const LoaderOptions options{.augment = {true, spec.classes > 0}, .seed = 9};
    Loader whole(data, seen, options), parts(data, seen, options);
    parts.leave_out();
    for (std::int64_t step = 0; step < 3; ++step) {
      const Batch &expected = whole.batch(step), &found = parts.batch(step);
      EXPECT_FALSE(expected.y_windows);
      ASSERT_TRUE(found.y_windows);
      EXPECT_TRUE(found.y.empty());
      EXPECT_EQ(found.y_shape, expected.y_shape);
      Box part = Box::whole(expected.y_shape);
      part.set(0, {1, 2});
      part.set(expected.y_shape.rank() - 2, {17, 130});
      for (const Box& window : {Box::whole(expected.y_shape), part}) {
        std::vector<std::byte> read(static_cast<std::size_t>(window.elements() * 4));
        found.y_windows(window, read.data());
        const std::byte* next = read.data();
        for_each_row(expected.y_shape, window, [&](std::int64_t offset, std::int64_t count) {
          EXPECT_EQ(std::memcmp(next, expected.y.data() + offset * 4, static_cast<std::size_t>(count * 4)), 0);
          next += count * 4;
        });
      }
      if (spec.classes == 0) continue;
      EXPECT_EQ(found.labelled, count_labels(expected.y, spec.classes));
      EXPECT_LT(found.labelled, expected.y_shape.product());
      EXPECT_GT(found.labelled, expected.y_shape.product() / 2);
    }
  }
  // Labels that are no class are found, though they are not read whole.
  BatchSpec few = labels;
  few.classes = 1;
  Loader parts(make_synthetic_dataset({.spec = labels, .seed = 5}), few, {.shuffle = false});
  parts.leave_out();
  EXPECT_THROW(parts.batch(0), UserError);
}

TEST(Loader, ErrorsSurfaceWhereTheBatchIsAskedFor) {
  const auto data = std::make_shared<Numbers>(9);
  data->bad = {4};
  for (int threads : {0, 2}) {
    Loader strict(data, kSpec, {.shuffle = false, .strict = true, .threads = threads});
    EXPECT_EQ(numbers(strict.batch(0)), (std::vector<std::int64_t>{0, 1, 2}));
    EXPECT_EQ(refusal([&] { strict.batch(1); }), "number 4 is damaged");
    EXPECT_EQ(refusal([&] { strict.batch(1); }), "number 4 is damaged");
    EXPECT_EQ(numbers(strict.batch(2)), (std::vector<std::int64_t>{6, 7, 8}));
  }
  data->bad = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  Loader none(data, kSpec, {.shuffle = false, .warn = [](std::string_view) {}});
  EXPECT_EQ(refusal([&] { none.batch(0); }), "numbers: not one of its 9 samples can be read; the first: number 0 is damaged");

  BatchSpec spec = kSpec;
  spec.classes = 3;
  Loader outside(std::make_shared<Numbers>(9), spec, {.shuffle = false});
  outside.batch(0);
  EXPECT_EQ(refusal([&] { outside.batch(1); }),
            "numbers: sample 3: label 3 is not one of the model's 3 classes (--classes): expected 0 to 2");
  spec.x_shape[1] = 3;
  Loader channels(std::make_shared<Numbers>(9), spec, {});
  expect_contains(refusal([&] { channels.batch(0); }), "expected extents [3, 4, 4], found [1, 4, 4]");
}

TEST(Loader, Refusals) {
  expect_contains(refusal([] { Loader(std::make_shared<Numbers>(2), kSpec, {.drop_last = true}); }), "fewer than one batch of 3");
  const BatchSpec own{DType::f32, {3, 1, 0, 0}, DType::i32, {3}, 4};
  expect_contains(refusal([&] { Loader(std::make_shared<Numbers>(2), own, {}); }), "give --batch 1");
  const BatchSpec flat{DType::f32, {3, 16}, DType::i32, {3}, 4};
  expect_contains(refusal([&] { Loader(std::make_shared<Numbers>(2), flat, {.augment = {true, false}}); }), "only images");
}

// Large samples are cropped in the middle, small ones laid into zeros; label maps go along, with the ignored label around.
TEST(Loader, SamplesOfOtherSizes) {
  const auto data = std::make_shared<Numbers>(2);
  data->sizes = {6, 2};
  data->maps = true;
  BatchSpec spec{DType::f32, {2, 1, 4, 4}, DType::i32, {2, 4, 4}, 1 << 20};
  spec.ignored_label = -1;
  Loader loader(data, spec, {.shuffle = false});
  const Batch& batch = loader.batch(0);
  EXPECT_EQ(values(batch.x),
            (std::vector<float>{101, 102, 103, 104, 201, 202,   203,   204, 301, 302,   303,   304, 401, 402, 403, 404,  //
                                0,   0,   0,   0,   0,   10000, 10001, 0,   0,   10100, 10101, 0,   0,   0,   0,   0}));
  const auto labels = values<std::int32_t>(batch.y);
  EXPECT_EQ(labels[0], 101);
  EXPECT_EQ(labels[16], -1);
  EXPECT_EQ(labels[21], 10000);

  // Each at its own size.
  const BatchSpec own{DType::f32, {1, 1, 0, 0}, DType::i32, {1, 0, 0}, 1 << 20};
  Loader single(data, own, {.shuffle = false});
  EXPECT_EQ(single.batch(0).x_shape, (Dims{1, 1, 6, 6}));
  EXPECT_EQ(single.batch(1).x_shape, (Dims{1, 1, 2, 2}));
  EXPECT_EQ(single.batch(1).y_shape, (Dims{1, 2, 2}));
  EXPECT_EQ(values(single.batch(1).x), (std::vector<float>{10000, 10001, 10100, 10101}));
}

TEST(Loader, FlipsAndCropsMoveLabelMapsAlong) {
  const auto data = std::make_shared<Numbers>(1);
  data->sizes = {16};
  data->maps = true;
  BatchSpec spec{DType::f32, {1, 1, 16, 16}, DType::i32, {1, 16, 16}, 1 << 20};
  spec.ignored_label = 0;
  Loader loader(data, spec, {.augment = {true, true}, .seed = 4});
  int flipped = 0;
  std::set<std::pair<int, int>> corners;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    const Batch& batch = loader.batch(epoch);
    const auto x = values(batch.x);
    const auto y = values<std::int32_t>(batch.y);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(static_cast<std::int32_t>(x[i]), y[i]);
    // The middle is never beyond the border, which is at most 2 = 16 / 8 away.
    const int here = static_cast<int>(x[8 * 16 + 7]), right = static_cast<int>(x[8 * 16 + 8]);
    ASSERT_EQ(std::abs(right - here), 1);
    flipped += right < here;
    const int row = here / 100 - 8, column = std::min(here, right) % 100 - 7;
    ASSERT_LE(std::max(std::abs(row), std::abs(column)), 2);
    corners.emplace(row, column);
  }
  EXPECT_GT(flipped, 10);
  EXPECT_LT(flipped, 30);
  EXPECT_GT(corners.size(), 10U);
}

// A window of a view is that window of the whole view, mirrored or not, inside or over the border.
TEST(View, WindowsAgreeWithTheWhole) {
  const Numbers data(3);
  const auto sample = data.open(1);
  for (bool mirrored : {false, true})
    for (std::int64_t origin : {-2, 0, 1}) {
      const View view{{origin, -origin}, {5, 6}, mirrored};
      std::vector<std::byte> whole(30 * 4), part(6 * 4);
      read_x(*sample, view, Box::whole({1, 5, 6}), DType::f32, whole.data());
      const Box window({0, 1, 2}, {1, 4, 4});
      read_x(*sample, view, window, DType::f32, part.data());
      for (std::size_t r = 0; r < 3; ++r)
        for (std::size_t c = 0; c < 2; ++c)
          EXPECT_EQ(values(part)[2 * r + c], values(whole)[6 * (r + 1) + c + 2]) << mirrored << origin << r << c;
    }
}

}  // namespace
}  // namespace outsize
