#include "graph/storage.h"

#include <array>

namespace outsize {

namespace {

constexpr int kChannels = 1;                  // N C D? H W
constexpr int kMaxAxes = Dims::kMaxRank + 1;  // a blocked map has one axis more than the value: the channels of a block

bool is_blocked(const StorageRule& rule, Format format, int rank) {
  return format == Format::map && rule.channel_block > 1 && rank > kChannels;
}

// The dimension of a value that is axis i of N D? H W C.
constexpr int dimension_of(int i, int rank) { return i < kChannels ? i : i == rank - 1 ? kChannels : i + 1; }

constexpr std::int64_t blocks_of(std::int64_t channels, std::int64_t block) { return (channels + block - 1) / block; }

// The extents of a box's axes as they lie in memory, outermost first.
struct StoredAxes {
  std::array<std::int64_t, kMaxAxes> extent{};
  int count = 0;
};

StoredAxes stored_axes(const StorageRule& rule, Format format, const Dims& box_shape) {
  StoredAxes axes;
  if (stored_channels_last(rule, format, box_shape.rank())) {
    axes.count = box_shape.rank();
    for (int i = 0; i < axes.count; ++i) axes.extent[i] = box_shape[dimension_of(i, axes.count)];
    return axes;
  }
  const bool blocked = is_blocked(rule, format, box_shape.rank());
  for (int i = 0; i < box_shape.rank(); ++i)
    axes.extent[axes.count++] = blocked && i == kChannels ? blocks_of(box_shape[i], rule.channel_block) : box_shape[i];
  if (blocked) axes.extent[axes.count++] = rule.channel_block;
  return axes;
}

}  // namespace

std::int64_t stored_elements(const StorageRule& rule, Format format, const Dims& box_shape) {
  const StoredAxes axes = stored_axes(rule, format, box_shape);
  std::int64_t elements = 1;
  for (int i = 0; i < axes.count; ++i) elements *= axes.extent[i];
  return elements;
}

std::int64_t stored_bytes(const StorageRule& rule, const ValueType& type, const Dims& box_shape) {
  return stored_elements(rule, type.format, box_shape) * size_of(type.dtype);
}

std::int64_t stored_offset(const StorageRule& rule, Format format, const Box& box, const Dims& position) {
  std::int64_t offset = 0;
  if (stored_channels_last(rule, format, box.rank())) {
    for (int i = 0; i < box.rank(); ++i) {
      const int dim = dimension_of(i, box.rank());
      offset = offset * box.extent(dim) + position[dim] - box.lo[dim];
    }
    return offset;
  }
  const bool blocked = is_blocked(rule, format, box.rank());
  for (int i = 0; i < box.rank(); ++i) {
    const std::int64_t index = position[i] - box.lo[i];
    if (blocked && i == kChannels)
      offset = offset * blocks_of(box.extent(i), rule.channel_block) + index / rule.channel_block;
    else
      offset = offset * box.extent(i) + index;
  }
  if (blocked) offset = offset * rule.channel_block + (position[kChannels] - box.lo[kChannels]) % rule.channel_block;
  return offset;
}

CopyPlan plan_copy(const StorageRule& rule, Format format, const Box& from_box, const Box& to_box, const Box& region) {
  CopyPlan plan;
  if (region.empty()) return plan;
  OUTSIZE_CHECK(from_box.contains(region) && to_box.contains(region));
  if (is_blocked(rule, format, region.rank())) {
    const Interval channels = region[kChannels];
    for (const Box* piece : {&from_box, &to_box}) OUTSIZE_CHECK((channels.lo - piece->lo[kChannels]) % rule.channel_block == 0);
    // Whole blocks are moved: a part of one would carry foreign channels along, or cover the destination's with zeros.
    const bool ends_both = channels.hi == from_box.hi[kChannels] && channels.hi == to_box.hi[kChannels];
    OUTSIZE_CHECK(ends_both || channels.size() % rule.channel_block == 0);
  }
  plan.from = stored_offset(rule, format, from_box, region.lo);
  plan.to = stored_offset(rule, format, to_box, region.lo);
  plan.length = 1;

  // From the innermost axis outwards, an axis whose steps continue the one inside it joins it: into the run while the run is all
  // there is, into the loop last opened afterwards. Loops fill from the back, so that the last is the innermost.
  const StoredAxes moved = stored_axes(rule, format, region.shape());
  const StoredAxes from = stored_axes(rule, format, from_box.shape());
  const StoredAxes to = stored_axes(rule, format, to_box.shape());
  std::int64_t from_stride = 1;
  std::int64_t to_stride = 1;
  int loop = CopyPlan::kLoops;
  for (int i = moved.count - 1; i >= 0; --i) {
    const auto axis = static_cast<std::size_t>(i);
    const std::int64_t extent = moved.extent[axis];
    const bool in_run = loop == CopyPlan::kLoops;
    const std::int64_t joined_from = in_run ? plan.length : plan.count[loop] * plan.from_stride[loop];
    const std::int64_t joined_to = in_run ? plan.length : plan.count[loop] * plan.to_stride[loop];
    if (extent > 1) {
      if (from_stride == joined_from && to_stride == joined_to) {
        (in_run ? plan.length : plan.count[loop]) *= extent;
      } else {
        OUTSIZE_CHECK(loop > 0);
        --loop;
        plan.count[loop] = extent;
        plan.from_stride[loop] = from_stride;
        plan.to_stride[loop] = to_stride;
      }
    }
    from_stride *= from.extent[axis];
    to_stride *= to.extent[axis];
  }
  return plan;
}

}  // namespace outsize
