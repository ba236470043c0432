#include "data/npz.h"

#include "../batches.h"
#include "../write_npz.h"
#include "data/npy.h"
#include "support.h"

namespace outsize {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// An .npy file of version 1 with that header text.
std::vector<std::byte> npy(const std::string& header, const std::string& data = "") {
  const auto length = static_cast<std::uint16_t>(header.size());
  return bytes_of("\x93NUMPY" + std::string("\x01\x00", 2) + std::string(reinterpret_cast<const char*>(&length), 2) + header +
                  data);
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const Array array =
      parse_npy(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }      \n", std::string("\1\0\0\0\2\0\0\0", 8)), "a");
  EXPECT_EQ(array.type, ElementType::i32);
  EXPECT_EQ(array.shape, (Dims{2}));
  EXPECT_EQ(array.data, array_of<std::int32_t>(ElementType::i32, {2}, {1, 2}).data);
  EXPECT_EQ(parse_npy(npy("{'descr': '|u1', 'fortran_order': False, 'shape': ()}", "x"), "a").shape, Dims{});
}

TEST(Npy, Refusals) {
  const auto message = [](const std::vector<std::byte>& bytes) { return refusal([&] { parse_npy(bytes, "x.npz: array 'x'"); }); };
  expect_contains(message(bytes_of("hello")), "x.npz: array 'x': not an npy array");
  expect_contains(message(npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }")), "'<f2' is not read");
  expect_contains(message(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }")), "'>f4' is not read");
  expect_contains(message(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }")), "Fortran order");
  expect_contains(message(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", "abc")), "expected 8 bytes");
  expect_contains(message(npy("{'descr': '<f4', 'fortran_order': False}")), "lacks");
  expect_contains(message(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}")), "expected an extent");
  expect_contains(message(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1)}")), "at most 6 dimensions");
  expect_contains(message(npy("{'descr': '<f4")), "unfinished");
}

class Npz : public FileTest {};

TEST_F(Npz, RoundTripStoredAndDeflated) {
  std::vector<float> values(10'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17);
  const Array x = array_of<float>(ElementType::f32, {100, 100}, values);
  const Array y = array_of<std::int64_t>(ElementType::i64, {3}, {1, -2, 3});
  for (bool compressed : {false, true}) {
    const std::string file = path(compressed ? "c.npz" : "s.npz");
    write_npz(file, {{"x", x}, {"y", y}}, compressed);
    const NpzFile opened(file);
    EXPECT_EQ(opened.names(), (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(opened.read("x").data, x.data);
    EXPECT_EQ(opened.read("x").shape, x.shape);
    EXPECT_EQ(opened.read("y").data, y.data);
    expect_contains(refusal([&] { opened.read("labels"); }), "expected an array 'labels', found only: 'x', 'y'");
  }
  EXPECT_LT(content("c.npz").size(), content("s.npz").size());
}

// Every truncation, and every flipped byte, is refused or harmless; nothing crashes.
TEST_F(Npz, DamageIsFound) {
  const Array x = array_of<std::uint8_t>(ElementType::u8, {8}, {1, 2, 3, 4, 5, 6, 7, 8});
  for (bool compressed : {false, true}) {
    write_npz(path("a.npz"), {{"x", x}}, compressed);
    const std::string good = content("a.npz");
    const auto read = [&] {
      const NpzFile file(path("b.npz"));
      Array whole = file.read("x");
      // Opened, it is the same.
      const ArrayReader opened = file.open("x");
      Array again = make_array(opened.type(), opened.shape());
      opened.read(0, again.data);
      EXPECT_EQ(again.data, whole.data);
      return whole;
    };
    for (std::size_t length = 0; length < good.size(); ++length) {
      write("b.npz", good.substr(0, length));
      EXPECT_THROW(read(), UserError) << "cut to " << length;
      EXPECT_THROW(NpzFile(path("b.npz")).open("x"), UserError) << "cut to " << length;
    }
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x55);
      write("b.npz", bad);
      try {
        EXPECT_EQ(read().data, x.data) << "byte " << i;
      } catch (const UserError&) {
      }
    }
  }
}

class Sources : public FileTest {
 protected:
  static BatchSpec labelled() { return {DType::f32, {2, 3, 2, 2}, DType::i32, {2}, 4}; }
  std::string npz(const Array& x, const Array& y) const {
    write_npz(path("d.npz"), {{"x", x}, {"y", y}});
    return path("d.npz");
  }
  std::string refuse(const Array& x, const Array& y) const {
    return refusal([&] { npz_batches(npz(x, y), labelled(), false, 0); });
  }
};

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_F(Sources, ReadsInOrderAndStartsAgain) {
  std::vector<std::uint8_t> pixels(5 * 12);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i / 12 * 51);
  const auto source = npz_batches(
      npz(array_of(ElementType::u8, {5, 3, 2, 2}, pixels), array_of<std::int64_t>(ElementType::i64, {5}, {0, 1, 2, 3, 0})),
      labelled(), false, 0);
  EXPECT_EQ(source->batches_per_epoch(), 2);  // the fifth sample is left out
  Batch batch;
  source->make(1, batch);
  EXPECT_FLOAT_EQ(floats(batch.x)[0], 0.4F);  // 102 / 255
  EXPECT_FLOAT_EQ(floats(batch.x)[12], 0.6F);
  EXPECT_EQ(batch.y, array_of<std::int32_t>(ElementType::i32, {2}, {2, 3}).data);
  const Batch second = batch;
  source->make(3, batch);
  EXPECT_EQ(batch.x, second.x);
}

TEST_F(Sources, ShuffleIsAPermutationOfItsOwnEachEpoch) {
  std::vector<float> x(12 * 16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / 12);
  const auto source =
      npz_batches(npz(array_of(ElementType::f32, {16, 3, 2, 2}, x), make_array(ElementType::i32, {16})), labelled(), true, 1);
  std::vector<std::vector<float>> epochs(2);
  for (std::int64_t step = 0; step < 16; ++step) {
    Batch batch;
    source->make(step, batch);
    epochs[static_cast<std::size_t>(step / 8)].push_back(floats(batch.x)[0]);
    epochs[static_cast<std::size_t>(step / 8)].push_back(floats(batch.x)[12]);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(epoch[i], static_cast<float>(i));
  }
}

TEST_F(Sources, Refusals) {
  const Array x = make_array(ElementType::f32, {4, 3, 2, 2}), y = make_array(ElementType::i64, {4});
  expect_contains(refuse(make_array(ElementType::f32, {4, 3, 2, 5}), y), "expected shape [3, 2, 2]");
  expect_contains(refuse(make_array(ElementType::i32, {4, 3, 2, 2}), y), "found int32");
  expect_contains(refuse(x, make_array(ElementType::i64, {3})), "4 samples, but 'y' has 3");
  expect_contains(refuse(x, make_array(ElementType::i64, {4, 4})), "one label a sample");
  expect_contains(refuse(x, make_array(ElementType::f32, {4})), "expected whole numbers");
  expect_contains(refuse(x, array_of<std::int64_t>(ElementType::i64, {4}, {0, 1, 4, 0})), "label 4 of sample 2");
  expect_contains(refuse(x, array_of<std::int64_t>(ElementType::i64, {4}, {0, 1, 1LL << 40, 0})),
                  "label 1099511627776 of sample 2 is not one of the model's 4 classes (--classes): expected 0 to 3");
  expect_contains(refuse(make_array(ElementType::f32, {1, 3, 2, 2}), make_array(ElementType::i64, {1})),
                  "fewer than one batch of 2");
}

TEST_F(Sources, TokensAndLabelsOfPositions) {
  BatchSpec spec{DType::i32, {1, 3}, DType::i32, {1, 3}, 5};
  spec.x_classes = 9;
  spec.ignored_label = -100;
  const Array x = array_of<std::uint16_t>(ElementType::u16, {2, 3}, {0, 1, 2, 3, 4, 8});
  const Array y = array_of<std::int8_t>(ElementType::i8, {2, 3}, {0, 1, 4, -100, 4, 3});
  const auto source = npz_batches(npz(x, y), spec, false, 0);
  Batch batch;
  source->make(1, batch);
  EXPECT_EQ(batch.x, array_of<std::int32_t>(ElementType::i32, {3}, {3, 4, 8}).data);
  EXPECT_EQ(batch.y, array_of<std::int32_t>(ElementType::i32, {3}, {-100, 4, 3}).data);

  const auto refused = [&](const Array& tokens, const Array& labels, const BatchSpec& by) {
    return refusal([&] { npz_batches(npz(tokens, labels), by, false, 0); });
  };
  expect_contains(refused(array_of<std::int64_t>(ElementType::i64, {2, 3}, {0, 1, 2, 3, 9, 8}), y, spec),
                  "token 9 of sample 1 (element 1 of it) is not one of the model's 9 tokens");
  expect_contains(refused(make_array(ElementType::f32, {2, 3}), y, spec), "expected whole numbers, found float32");
  expect_contains(
      refused(x, array_of<std::int64_t>(ElementType::i64, {2, 3}, {0, 1, 5, 3, 4, 1}), spec),
      "label 5 of sample 0 (element 2 of it) is not one of the model's 5 classes (--classes): expected 0 to 4, or -100 for "
      "none");
  // Also one that 32 bits do not hold, which would be another.
  const std::int64_t wide = (std::int64_t{1} << 32) + 1;
  expect_contains(refused(x, array_of<std::int64_t>(ElementType::i64, {2, 3}, {0, 1, 2, 3, wide, 1}), spec),
                  "label 4294967297 of sample 1 (element 1 of it) is not one of the model's 5 classes");
  spec.ignored_label.reset();
  expect_contains(refused(x, y, spec), "label -100 of sample 1 (element 0 of it)");
}

std::vector<std::int32_t> integers(const std::vector<std::byte>& bytes) {
  std::vector<std::int32_t> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_F(Sources, SyntheticTokensAreFollowedByTheirLabels) {
  BatchSpec spec{DType::i32, {4, 50}, DType::i32, {4, 50}, 30};
  spec.x_classes = 40;
  Batch batch;
  synthetic_batches(spec, 3)->make(7, batch);
  const auto x = integers(batch.x), y = integers(batch.y);
  std::size_t followed = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(x[i] >= 0 && x[i] < 40 && y[i] >= 0 && y[i] < 30) << i;
    if (i % 50 < 49) followed += x[i + 1] == y[i];
    if (i % 50 >= 6) {
      EXPECT_EQ(y[i], y[i - 6]) << i;  // the cycle, without noise
    }
  }
  EXPECT_GT(followed, 160U);  // nine of ten of 196
  EXPECT_LT(followed, 196U);
  spec.y_shape = {4};
  synthetic_batches(spec, 3)->make(7, batch);
  EXPECT_EQ(integers(batch.y).size(), 4U);
}

TEST_F(Sources, SyntheticPositionsAreLabelledByTheirHeight) {
  const BatchSpec spec{DType::f32, {2, 3, 4, 8, 6}, DType::i32, {2, 4, 8, 6}, 2};
  Batch batch;
  synthetic_batches(spec, 3)->make(1, batch);
  const auto x = floats(batch.x);
  const auto y = integers(batch.y);
  ASSERT_EQ(y.size(), 2U * 192U);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float value = x[i / 192 * 3 * 192 + i % 192];  // of the first plane; noise reaches 0.5
    if (std::abs(value) > 0.5F) {
      EXPECT_EQ(y[i], value > 0 ? 1 : 0) << i;
    }
  }
}

TEST_F(Sources, SyntheticBatchesAreAFunctionOfSeedAndStep) {
  const auto source = synthetic_batches(labelled(), 5);
  Batch a, b;
  source->make(3, a);
  source->make(9, b);
  EXPECT_NE(a.x, b.x);
  source->make(3, b);
  EXPECT_EQ(a.x, b.x);
  EXPECT_EQ(a.y, b.y);
  synthetic_batches(labelled(), 6)->make(3, b);
  EXPECT_NE(a.x, b.x);
  for (float value : floats(a.x)) EXPECT_LE(std::abs(value), 1.5F);
}

}  // namespace
}  // namespace outsize
