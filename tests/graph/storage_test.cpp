#include "graph/storage.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace outsize {
namespace {

constexpr std::int64_t kUntouched = -1;

// Calls `visit` with every position of a box.
template <class Visit>
void for_each_position(const Box& box, Visit visit) {
  if (box.empty()) return;
  Dims position = box.lo;
  for (;;) {
    visit(position);
    int i = box.rank() - 1;
    while (i >= 0 && ++position[i] == box.hi[i]) {
      position[i] = box.lo[i];
      --i;
    }
    if (i < 0) return;
  }
}

// A number no other position has; 0 is kept for padding.
std::int64_t label(const Dims& position) {
  std::int64_t number = 1;
  for (std::int64_t coordinate : position) number = number * 64 + coordinate;
  return number;
}

// A piece that holds the labels of its box, padding zero.
std::vector<std::int64_t> labelled_piece(const StorageRule& rule, Format format, const Box& box) {
  std::vector<std::int64_t> piece(static_cast<std::size_t>(stored_elements(rule, format, box.shape())), 0);
  for_each_position(box, [&](const Dims& position) {
    piece[static_cast<std::size_t>(stored_offset(rule, format, box, position))] = label(position);
  });
  return piece;
}

void run(const CopyPlan& plan, const std::vector<std::int64_t>& from, std::vector<std::int64_t>& to) {
  for (std::int64_t a = 0; a < plan.count[0]; ++a)
    for (std::int64_t b = 0; b < plan.count[1]; ++b)
      for (std::int64_t c = 0; c < plan.count[2]; ++c)
        for (std::int64_t d = 0; d < plan.count[3]; ++d)
          for (std::int64_t e = 0; e < plan.length; ++e) {
            const std::int64_t i[] = {a, b, c, d};
            std::int64_t source = plan.from + e;
            std::int64_t target = plan.to + e;
            for (int loop = 0; loop < CopyPlan::kLoops; ++loop) {
              source += i[loop] * plan.from_stride[loop];
              target += i[loop] * plan.to_stride[loop];
            }
            to.at(static_cast<std::size_t>(target)) = from.at(static_cast<std::size_t>(source));
          }
}

// Copies `region` as planned, then compares every element of the destination with what its box says it must hold.
void expect_exact_copy(const StorageRule& rule, Format format, const Box& from_box, const Box& to_box, const Box& region) {
  const std::vector<std::int64_t> from = labelled_piece(rule, format, from_box);
  std::vector<std::int64_t> to(static_cast<std::size_t>(stored_elements(rule, format, to_box.shape())), kUntouched);
  run(plan_copy(rule, format, from_box, to_box, region), from, to);
  for_each_position(to_box, [&](const Dims& position) {
    const std::int64_t found = to[static_cast<std::size_t>(stored_offset(rule, format, to_box, position))];
    const bool inside = region.contains(Box(position, [&] {
      Dims next = position;
      for (int i = 0; i < next.rank(); ++i) ++next[i];
      return next;
    }()));
    ASSERT_EQ(found, inside ? label(position) : kUntouched)
        << to_string(from_box) << " → " << to_string(to_box) << ", " << to_string(region);
  });
  // Padding was copied as zeros or left alone.
  std::int64_t labels = 0;
  for (std::int64_t element : to) labels += element > 0 ? 1 : 0;
  EXPECT_EQ(labels, region.elements());
}

class Boxes {
 public:
  Box inside(const Box& outer, std::int64_t channel_step) {
    Box box = outer;
    for (int i = 0; i < outer.rank(); ++i) {
      const std::int64_t step = i == 1 ? channel_step : 1;
      const std::int64_t steps = (outer.extent(i) + step - 1) / step;
      const std::int64_t lo = draw(0, steps - 1);
      const std::int64_t hi = draw(lo + 1, steps);
      box.set(i, {outer.lo[i] + lo * step, std::min(outer.lo[i] + hi * step, outer.hi[i])});
    }
    return box;
  }
  std::int64_t draw(std::int64_t lo, std::int64_t hi) { return std::uniform_int_distribution<std::int64_t>(lo, hi)(random_); }

 private:
  std::mt19937_64 random_{7};
};

TEST(Storage, PlainIsRowMajor) {
  const StorageRule blocked{8};
  EXPECT_EQ(stored_elements(blocked, Format::plain, {3, 5}), 15);
  EXPECT_EQ(stored_bytes(blocked, {DType::f64, {3, 5}, Format::plain}, {2, 5}), 80);  // 2·5 elements of 8 bytes
  EXPECT_EQ(stored_offset(blocked, Format::plain, {{1, 0}, {3, 5}}, {2, 3}), 8);      // (2−1)·5 + 3
  EXPECT_EQ(stored_elements(blocked, Format::plain, {}), 1);
}

TEST(Storage, BlockedMapPadsChannels) {
  const StorageRule blocked{8};
  // N=2, ⌈12/8⌉=2 blocks, H=3, W=4, 8: 2·2·3·4·8
  EXPECT_EQ(stored_elements(blocked, Format::map, {2, 12, 3, 4}), 384);
  EXPECT_EQ(stored_bytes(blocked, {DType::f32, {2, 12, 3, 4}, Format::map}, {2, 12, 3, 4}), 1536);
  EXPECT_EQ(stored_bytes(blocked, {DType::u8, {2, 12, 3, 4}, Format::map}, {2, 12, 3, 4}), 384);
  // ((((1·2 + 9/8)·3 + 2)·4 + 3)·8 + 9%8 = 47·8 + 1
  EXPECT_EQ(stored_offset(blocked, Format::map, Box::whole({2, 12, 3, 4}), {1, 9, 2, 3}), 377);
  // A piece is dense in its own box: channels 8:12 become block 0, row 1 row 0. (0·4 + 3)·8 + 1
  EXPECT_EQ(stored_offset(blocked, Format::map, {{1, 8, 1, 0}, {2, 12, 3, 4}}, {1, 9, 1, 3}), 25);
}

TEST(Storage, ChannelsLastPadsNothing) {
  const StorageRule last{.channels_last = true};
  EXPECT_EQ(stored_elements(last, Format::map, {2, 12, 3, 4}), 288);
  // ((1·3 + 2)·4 + 3)·12 + 9
  EXPECT_EQ(stored_offset(last, Format::map, Box::whole({2, 12, 3, 4}), {1, 9, 2, 3}), 285);
  // A planar map likewise; of 3 dimensions in space: (((1·2 + 1)·3 + 2)·4 + 3)·5 + 4
  EXPECT_EQ(stored_offset(last, Format::planar, Box::whole({2, 5, 2, 3, 4}), {1, 4, 1, 2, 3}), 239);
  // Plain values are row-major: ((1·12 + 9)·3 + 2)·4 + 3
  EXPECT_EQ(stored_offset(last, Format::plain, Box::whole({2, 12, 3, 4}), {1, 9, 2, 3}), 263);
  // A band of rows of one sample is one range, a range of channels is not.
  const Box whole = Box::whole({1, 6, 8, 4}), rows({0, 0, 2, 0}, {1, 6, 5, 4}), channels({0, 2, 0, 0}, {1, 4, 8, 4});
  EXPECT_EQ(plan_copy(last, Format::map, whole, rows, rows).length, 72);         // 3·4·6
  EXPECT_EQ(plan_copy(last, Format::map, whole, channels, channels).length, 2);  // 8·4 runs of them
}

TEST(Storage, OffsetsOfABoxAreDistinctAndInside) {
  for (const StorageRule& rule : {StorageRule{1}, StorageRule{4}, StorageRule{8}, StorageRule{.channels_last = true}}) {
    const Box box({1, 2, 0, 3, 1}, {3, 8, 2, 5, 4});
    std::vector<int> seen(static_cast<std::size_t>(stored_elements(rule, Format::map, box.shape())), 0);
    for_each_position(box, [&](const Dims& p) { ++seen.at(static_cast<std::size_t>(stored_offset(rule, Format::map, box, p))); });
    std::int64_t used = 0;
    for (int count : seen) {
      EXPECT_LE(count, 1);
      used += count;
    }
    EXPECT_EQ(used, box.elements());
  }
}

TEST(Storage, FullWidthBandIsOneRun) {
  const CopyPlan plan = plan_copy({}, Format::plain, Box::whole({4, 6}), {{1, 0}, {3, 6}}, {{1, 0}, {3, 6}});
  EXPECT_EQ(plan.from, 6);
  EXPECT_EQ(plan.to, 0);
  EXPECT_EQ(plan.length, 12);
  for (std::int64_t count : plan.count) EXPECT_EQ(count, 1);
}

TEST(Storage, BlockedBandIsOneRunAChannelBlock) {
  // 12 channels are 2 blocks; rows 2:5 of 8, width 4: a run is 3·4·8, blocks are 8·4·8 apart, and 3·4·8 in the band's own piece.
  const Box band({0, 0, 2, 0}, {1, 12, 5, 4});
  const CopyPlan plan = plan_copy({8}, Format::map, Box::whole({1, 12, 8, 4}), band, band);
  EXPECT_EQ(plan.from, 2 * 4 * 8);
  EXPECT_EQ(plan.length, 96);
  EXPECT_EQ(plan.count[3], 2);
  EXPECT_EQ(plan.from_stride[3], 256);
  EXPECT_EQ(plan.to_stride[3], 96);
  EXPECT_EQ(plan.count[0] * plan.count[1] * plan.count[2], 1);

  // With two samples the strides of samples and blocks go on evenly (512 = 2·256, 192 = 2·96): still one loop.
  const Box both({0, 0, 2, 0}, {2, 12, 5, 4});
  const CopyPlan two = plan_copy({8}, Format::map, Box::whole({2, 12, 8, 4}), both, both);
  EXPECT_EQ(two.count[3], 4);
  EXPECT_EQ(two.count[0] * two.count[1] * two.count[2], 1);
}

TEST(Storage, RangeOfSamplesIsOneRun) {
  const Box samples({1, 0, 0, 0}, {3, 5, 3, 4});
  const CopyPlan plan = plan_copy({8}, Format::map, Box::whole({4, 5, 3, 4}), samples, samples);
  EXPECT_EQ(plan.from, 96);     // one sample: 1 block · 3 · 4 · 8
  EXPECT_EQ(plan.length, 192);  // padding included
}

TEST(Storage, EmptyRegionMovesNothing) {
  EXPECT_EQ(plan_copy({8}, Format::map, Box::whole({1, 8, 2, 2}), Box::whole({1, 8, 2, 2}), Box::none(4)).length, 0);
}

TEST(Storage, CopyThatWouldSplitABlockIsRefused) {
  const Box whole = Box::whole({1, 16, 2, 2});
  const Box head({0, 0, 0, 0}, {1, 5, 2, 2});
  EXPECT_THROW(plan_copy({8}, Format::map, whole, head, head), InternalError);  // channels 5..7 would land in head's padding
  EXPECT_THROW(plan_copy({8}, Format::map, head, whole, head), InternalError);  // head's padding would cover channels 5..7
  EXPECT_THROW(plan_copy({8}, Format::map, whole, whole, {{0, 4, 0, 0}, {1, 16, 2, 2}}), InternalError);
}

TEST(Storage, CopiesMatchElementByElement) {
  Boxes boxes;
  for (int round = 0; round < 3000; ++round) {
    const StorageRule rule{round % 3 == 0 ? 1 : round % 3 == 1 ? 4 : 8, round % 3 == 0 && round % 2 == 0};
    const Format format = round % 4 == 0 ? Format::plain : Format::map;
    Dims shape;
    for (int i = 0, rank = format == Format::map ? static_cast<int>(boxes.draw(4, 5)) : static_cast<int>(boxes.draw(1, 5));
         i < rank; ++i)
      shape.push_back(boxes.draw(1, i == 1 ? 20 : 4));
    const std::int64_t step = format == Format::map ? rule.channel_block : 1;
    // Two pieces that overlap at least in `core`. Channels start on block boundaries and, where they end inside a block, both end
    // where the value ends.
    const Box value = Box::whole(shape);
    const Box core = boxes.inside(value, step);
    const Box from = hull(core, boxes.inside(value, step));
    const Box to = hull(core, boxes.inside(value, step));
    expect_exact_copy(rule, format, from, to, core);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace outsize
