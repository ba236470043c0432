#pragma once

#include "ops/expect.h"
#include "ops/registry.h"

// NumPy's broadcasting: shapes are aligned at their last dimension, and an operand whose extent is 1, or that lacks the dimension,
// is the same along all of the result's.
namespace outsize {

// The extent of dimension `dim` of the result in an operand, 1 where the operand lacks it.
inline std::int64_t aligned_extent(const Dims& operand, const Dims& result, int dim) {
  const int own = dim - (result.rank() - operand.rank());
  return own < 0 ? 1 : operand[own];
}

// Whether values of that type broadcast to `result`. A plain operand broadcasts to a map if it is one number, or one a channel.
inline bool broadcasts_to(const ValueType& operand, const ValueType& result) {
  if (operand.dtype != result.dtype || operand.shape.rank() > result.shape.rank()) return false;
  if (operand.format == Format::map && (result.format != Format::map || operand.shape.rank() != result.shape.rank())) return false;
  const bool channels_only = operand.format != result.format;
  for (int dim = 0; dim < result.shape.rank(); ++dim) {
    const std::int64_t extent = aligned_extent(operand.shape, result.shape, dim);
    const bool same = extent == result.shape[dim] && (!channels_only || dim == 1);
    if (extent != 1 && !same) return false;
  }
  return true;
}

// The box of an operand that a box of the result reads.
inline Box operand_box(const Dims& operand, const Dims& result, const Box& box) {
  if (box.empty()) return Box::none(operand.rank());
  Box read = Box::whole(operand);
  for (int dim = result.rank() - operand.rank(); dim < result.rank(); ++dim) {
    const int own = dim - (result.rank() - operand.rank());
    if (operand[own] == result[dim]) read.set(own, box[dim]);
  }
  return read;
}

// The box of the result that reads a box of an operand.
inline Box result_box(const Dims& operand, const Dims& result, const Box& box) {
  Box made = Box::whole(result);
  for (int own = 0; own < operand.rank(); ++own) {
    const int dim = own + result.rank() - operand.rank();
    if (operand[own] == result[dim]) made.set(dim, box[own]);
  }
  return made;
}

inline std::vector<std::int64_t> as_list(const Dims& dims) { return {dims.begin(), dims.end()}; }
// The attribute `format`, which must be plain or map. Throws UserError otherwise.
inline Format expect_format(const OpSite& site) {
  const std::string& word = site.word("format");
  if (word != "plain" && word != "map") user_error("attribute format must be plain or map, found {}", word);
  return word == "map" ? Format::map : Format::plain;
}
inline std::string format_word(Format format) { return format == Format::map ? "map" : "plain"; }

// `gradient`, which has the result's shape, summed to the type of input i where that one was broadcast.
inline ValueId summed_to_input(GradientContext& context, int i, ValueId gradient) {
  const OpSite site = context.site();
  const ValueType& type = site.in(i);
  if (site.graph.value(gradient).type == type) return gradient;
  return context.emit("sum_to", i == 0 ? "sum_a" : "sum_b", {gradient},
                      {{"shape", as_list(type.shape)}, {"format", format_word(type.format)}})[0];
}

// y = f(a, b), element by element, broadcasting.
class BroadcastOp : public OpDef {
 public:
  std::vector<std::string_view> input_names() const override { return {"a", "b"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    expect_float(site, 1);
    const ValueType& a = site.in(0);
    const ValueType& b = site.in(1);
    ValueType y = a.format == Format::map || b.shape.rank() < a.shape.rank() ? a : b;
    if (b.format == Format::map) y = b;
    // Of equal formats each may be broadcast in other dimensions; a plain operand cannot make a map larger.
    if (a.format == b.format)
      for (int dim = 0; dim < y.shape.rank(); ++dim)
        y.shape[dim] = std::max(aligned_extent(a.shape, y.shape, dim), aligned_extent(b.shape, y.shape, dim));
    if (!broadcasts_to(a, y) || !broadcasts_to(b, y))
      user_error(
          "inputs a and b must have equal formats, and extents that are equal or 1 (or one is a map and the other a plain [1] or "
          "[C, 1, 1]), found {} and {}",
          to_string(a), to_string(b));
    return {y};
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const Dims& y = site.out(0).shape;
    return {{operand_box(site.in(0).shape, y, output), operand_box(site.in(1).shape, y, output)}, {output}};
  }
  int push_driver(const OpSite& site) const override { return site.in(0) != site.out(0) && site.in(1) == site.out(0) ? 1 : 0; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return gather(site, result_box(site.in(push_driver(site)).shape, site.out(0).shape, driver));
  }

  InPlacePairs in_place(const OpSite& site) const override {
    InPlacePairs pairs;
    for (int i = 0; i < 2; ++i)
      if (site.in(i) == site.out(0)) pairs.push_back({0, i});
    return pairs;
  }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace outsize
