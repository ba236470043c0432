// Windows of a source come into the form they are stored in, whoever reads them.
#include "run/source_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>

#include "base/error.h"
#include "run/layout.h"

namespace outsize {
namespace {

using testing::HasSubstr;

struct Case {
  ValueType type;
  Box window;
};

// Every element of a value tells its place; what a reader is asked for is dense.
std::vector<std::byte> dense(const ValueType& type, const Box& window) {
  std::vector<std::byte> bytes;
  for_each_row(type.shape, window, [&](std::int64_t offset, std::int64_t count) {
    for (std::int64_t i = offset; i < offset + count; ++i) {
      const auto element = static_cast<float>(i % 65'521);
      const std::size_t at = bytes.size();
      bytes.resize(at + static_cast<std::size_t>(size_of(type.dtype)));
      if (type.dtype == DType::u8)
        bytes[at] = static_cast<std::byte>(i % 251);
      else
        std::memcpy(&bytes[at], &element, sizeof element);
    }
  });
  return bytes;
}

// A few channels, more than a block of them, samples, volumes, and rows so long that few are read at once.
std::vector<Case> cases() {
  return {
      {{DType::f32, {2, 3, 40, 50}, Format::map}, Box({0, 0, 3, 7}, {2, 3, 38, 50})},
      {{DType::f32, {1, 37, 20, 9}, Format::map}, Box({0, 16, 1, 0}, {1, 37, 20, 9})},
      {{DType::u8, {1, 3, 64, 64}, Format::map}, Box({0, 0, 0, 0}, {1, 3, 64, 64})},
      {{DType::f32, {1, 1, 12, 10, 14}, Format::map}, Box({0, 0, 2, 1, 0}, {1, 1, 11, 10, 14})},
      {{DType::f32, {1, 3, 100, 9000}, Format::map}, Box({0, 0, 10, 100}, {1, 3, 97, 9000})},
      {{DType::f32, {1, 3, 1, 20}, Format::map}, Box({0, 0, 0, 0}, {1, 3, 1, 20})},
      {{DType::f32, {2, 3, 40, 50}, Format::planar}, Box({0, 0, 3, 7}, {2, 3, 38, 50})},
      {{DType::f32, {1, 3, 100, 9000}, Format::planar}, Box({0, 1, 10, 100}, {1, 3, 97, 9000})},
      {{DType::u8, {1, 1, 12, 10, 14}, Format::planar}, Box({0, 0, 2, 1, 0}, {1, 1, 11, 10, 14})},
      {{DType::f32, {3, 30}, Format::plain}, Box({1, 0}, {3, 30})},
  };
}

TEST(SourceReader, StoresWhatTheSourceGives) {
  for (const StorageRule& rule : {StorageRule{1}, StorageRule{8}, StorageRule{16}, StorageRule{.channels_last = true}})
    for (const int threads : {1, 2, 5})
      for (const Case& c : cases()) {
        SourceReader reader(rule, threads);
        reader.make_room(c.type, c.window.shape());
        const ValueType held{c.type.dtype, c.window.shape(), c.type.format};
        const auto bytes = static_cast<std::size_t>(stored_bytes(rule, held, held.shape));
        std::vector<std::byte> expected(bytes), found(bytes, std::byte{0x55});
        store_dense(rule, held, dense(c.type, c.window).data(), expected.data());
        for (const bool for_several : {false, true}) {
          const auto read = [&](const Box& window, std::byte* out) {
            const std::vector<std::byte> part = dense(c.type, window);
            std::memcpy(out, part.data(), part.size());
          };
          reader.read({read, for_several}, c.type, c.window, found.data());
          EXPECT_TRUE(found == expected) << to_string(c.type) << " in blocks of " << rule.channel_block << " by " << threads;
          std::ranges::fill(found, std::byte{0x55});
        }
      }
}

TEST(SourceReader, AsksOnlyThoseForSeveralFromOtherThreads) {
  SourceReader reader({.channel_block = 16}, 3);
  const ValueType type{DType::f32, {1, 3, 300, 200}, Format::map};
  const Box whole = Box::whole(type.shape);
  reader.make_room(type, type.shape);
  std::vector<std::byte> stored(static_cast<std::size_t>(stored_bytes({.channel_block = 16}, type, type.shape)));
  for (const bool for_several : {false, true}) {
    std::mutex mutex;
    std::set<std::thread::id> asked;
    std::int64_t rows = 0;
    const auto read = [&](const Box& window, std::byte*) {
      const std::lock_guard lock(mutex);
      asked.insert(std::this_thread::get_id());
      rows += window.extent(2);
    };
    reader.read({read, for_several}, type, whole, stored.data());
    EXPECT_EQ(asked.size(), for_several ? 3 : 1);
    EXPECT_TRUE(asked.contains(std::this_thread::get_id()));
    EXPECT_EQ(rows, 300);  // each once
  }
}

// Whichever thread meets it, the caller gets the error, and can go on.
TEST(SourceReader, HandsErrorsOn) {
  SourceReader reader({.channel_block = 16}, 3);
  const ValueType type{DType::f32, {1, 3, 300, 20}, Format::map};
  reader.make_room(type, type.shape);
  std::vector<std::byte> stored(static_cast<std::size_t>(stored_bytes({.channel_block = 16}, type, type.shape)));
  for (const std::int64_t torn : {0, 150, 299, -1}) {
    const auto read = [&](const Box& window, std::byte*) {
      if (window[2].lo <= torn && torn < window[2].hi) user_error("row {} is torn", torn);
    };
    std::string message;
    try {
      reader.read({read, true}, type, Box::whole(type.shape), stored.data());
    } catch (const UserError& error) {
      message = error.what();
    }
    EXPECT_EQ(message, torn < 0 ? "" : fmt::format("row {} is torn", torn));
  }
}

}  // namespace
}  // namespace outsize
