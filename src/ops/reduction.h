#pragma once

#include <array>

#include "ops/broadcast.h"

// Sums over dimensions of a value: what sum_to, sum and mean have in common.
namespace outsize {

// Which dimensions of x are summed over, and where the others are in the result.
struct Reduction {
  Dims x;
  bool x_map = false;
  Dims y;
  std::array<bool, Dims::kMaxRank> summed{};
  std::array<int, Dims::kMaxRank> target{};  // the dimension of y, where one of extent 1 stands for a summed one; -1: none

  bool sums(int dim) const { return summed[static_cast<std::size_t>(dim)]; }
  int to(int dim) const { return target[static_cast<std::size_t>(dim)]; }
  // How many elements of x make one of y.
  std::int64_t terms() const {
    std::int64_t product = 1;
    for (int dim = 0; dim < x.rank(); ++dim)
      if (sums(dim)) product *= x[dim];
    return product;
  }
  // Whether tiles cut a dimension that is summed over: samples or rows, and the space of a map.
  bool over_tiles() const {
    for (int dim = 0; dim < x.rank(); ++dim)
      if (sums(dim) && x[dim] > 1 && (dim == 0 || (x_map && dim >= 2))) return true;
    return false;
  }

  // The box of y that a box of x adds to.
  Box pushed(const Box& box) const {
    Box result = Box::whole(y);
    for (int dim = 0; dim < x.rank(); ++dim)
      if (!sums(dim)) result.set(to(dim), box[dim]);
    return result;
  }
  // The box of x that a box of y is the sum of.
  Box gathered(const Box& box) const {
    Box needed = Box::whole(x);
    for (int dim = 0; dim < x.rank(); ++dim)
      if (!sums(dim)) needed.set(dim, box[to(dim)]);
    return needed;
  }
};

// x summed to a type that broadcasts to it.
inline Reduction reduction_to(const ValueType& x, const ValueType& y) {
  Reduction reduction{x.shape, x.format == Format::map, y.shape};
  for (int dim = 0; dim < x.shape.rank(); ++dim) {
    const auto i = static_cast<std::size_t>(dim);
    reduction.target[i] = std::max(-1, dim - (x.shape.rank() - y.shape.rank()));
    reduction.summed[i] = reduction.target[i] < 0 || y.shape[reduction.target[i]] != x.shape[dim];
  }
  return reduction;
}

// x summed over these dimensions, which stay with extent 1 or go; what has no dimension left is [1].
inline Reduction reduction_over(const ValueType& x, const std::array<bool, Dims::kMaxRank>& summed, bool keep) {
  Reduction reduction{x.shape, x.format == Format::map, {}, summed};
  for (int dim = 0; dim < x.shape.rank(); ++dim) {
    const bool goes = reduction.sums(dim) && !keep;
    reduction.target[static_cast<std::size_t>(dim)] = goes ? -1 : reduction.y.rank();
    if (!goes) reduction.y.push_back(reduction.sums(dim) ? 1 : x.shape[dim]);
  }
  if (reduction.y.rank() == 0) reduction.y.push_back(1);
  return reduction;
}

// The reduction of an op with the attributes `axes` (none: all) and `keep_dims`.
inline Reduction reduction_by_axes(const OpSite& site) {
  const std::vector<std::int64_t>& axes = site.integers("axes");
  std::array<bool, Dims::kMaxRank> summed{};
  for (int dim = 0; dim < site.in(0).shape.rank(); ++dim)
    summed[static_cast<std::size_t>(dim)] = axes.empty() || std::find(axes.begin(), axes.end(), dim) != axes.end();
  return reduction_over(site.in(0), summed, site.integer("keep_dims") == 1);
}

// An op that is such a sum. Where tiles cut a dimension that is summed over, it is pushed and partial results are added; elsewhere
// each box of the result has its own box of x.
class ReductionOp : public OpDef {
 public:
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  virtual Reduction reduction(const OpSite& site) const = 0;

  bool can_gather(const OpSite& site) const override { return !reduction(site).over_tiles(); }
  Combine combine(const OpSite& site, int) const override { return can_gather(site) ? Combine::none : Combine::sum; }
  CallBoxes gather(const OpSite& site, const Box& output) const override { return {{reduction(site).gathered(output)}, {output}}; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const Reduction sums = reduction(site);
    const Box output = sums.pushed(driver);
    return {{can_gather(site) ? sums.gathered(output) : driver}, {output}};
  }
  bool cheap(const OpSite&) const override { return true; }
};

// The attribute `shape` as extents, each at least 1. Throws UserError otherwise.
inline Dims expect_shape(const OpSite& site) {
  const std::vector<std::int64_t>& list = site.integers("shape");
  if (list.empty() || list.size() > static_cast<std::size_t>(Dims::kMaxRank) ||
      std::any_of(list.begin(), list.end(), [](std::int64_t extent) { return extent < 1; }))
    user_error("attribute shape must be 1 to {} positive extents, found {}", Dims::kMaxRank, to_string(Attribute(list)));
  return Dims(std::span<const std::int64_t>(list));
}

}  // namespace outsize
