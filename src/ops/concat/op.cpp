#include "ops/movement.h"

namespace outsize {
namespace {

int concat_axis(const OpSite& site) {
  const std::int64_t axis = site.integer("axis");
  const ValueType& first = site.in(0);
  if (axis < 0 || axis >= first.shape.rank())
    user_error("axis must be a dimension of {}, 0 to {}, found {}", to_string(first), first.shape.rank() - 1, axis);
  return static_cast<int>(axis);
}

Dims with_extent(Dims shape, int axis, std::int64_t extent) {
  shape[axis] = extent;
  return shape;
}

// The box with all of a dimension of that extent.
Box with_whole(Box box, int axis, std::int64_t extent) {
  box.set(axis, {0, extent});
  return box;
}

class Concat final : public OpDef {
 public:
  std::string_view kind() const override { return "concat"; }
  std::string_view help() const override { return "values joined along one dimension"; }
  std::vector<std::string_view> input_names() const override { return {"x*"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"axis", std::int64_t{1}, "the dimension along which the parts follow each other"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    if (site.inputs() == 0) user_error("at least one input is needed");
    expect_movable(site, 0);
    const int axis = concat_axis(site);
    ValueType y = site.in(0);
    for (int i = 1; i < site.inputs(); ++i) {
      const ValueType& part = site.in(i);
      ValueType expected = y;
      // Where the ranks differ there is no extent to take over, and the comparison fails as it should.
      expected.shape[axis] = part.shape.rank() == y.shape.rank() ? part.shape[axis] : site.in(0).shape[axis];
      expect_type(site, i, expected, fmt::format("as the first part but for dimension {}", axis));
      y.shape[axis] += part.shape[axis];
    }
    return {y};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy) return;
    const OpSite site = context.site();
    const int axis = concat_axis(site);
    std::vector<std::int64_t> sizes;
    bool wanted = false;
    for (int i = 0; i < site.inputs(); ++i) {
      sizes.push_back(site.in(i).shape[axis]);
      wanted = wanted || context.wants(i);
    }
    if (!wanted) return;
    Attributes attributes{{"axis", std::int64_t{axis}}, {"sizes", std::move(sizes)}};
    const std::vector<ValueId> grads = context.emit("split", "grad", {dy}, std::move(attributes));
    for (int i = 0; i < site.inputs(); ++i)
      if (context.wants(i)) context.contribute(i, grads[static_cast<std::size_t>(i)]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const int axis = concat_axis(site);
    CallBoxes boxes{{}, {output}};
    std::int64_t offset = 0;
    for (int i = 0; i < site.inputs(); ++i) {
      const std::int64_t extent = site.in(i).shape[axis];
      const Interval part = intersect({output.lo[axis] - offset, output.hi[axis] - offset}, {0, extent});
      Box box = output;
      box.set(axis, part.empty() ? Interval{} : part);
      boxes.in.push_back(box);
      offset += extent;
    }
    return boxes;
  }
  // A box of the first part stands for the same box of every part, whole along the axis.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const int axis = concat_axis(site);
    return gather(site, with_whole(driver, axis, site.out(0).shape[axis]));
  }

  bool cheap(const OpSite&) const override { return true; }
};

class Split final : public OpDef {
 public:
  std::string_view kind() const override { return "split"; }
  std::string_view help() const override { return "a value cut into parts along one dimension"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"axis", std::int64_t{1}, "the dimension along which the parts follow each other"},
            {"sizes", std::vector<std::int64_t>{}, "the extent of each part along it (required)"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_movable(site, 0);
    const ValueType& x = site.in(0);
    const int axis = concat_axis(site);
    std::int64_t total = 0;
    std::vector<ValueType> parts;
    for (std::int64_t size : site.integers("sizes")) {
      if (size < 1) user_error("sizes must be at least 1, found {}", to_string(Attribute(site.integers("sizes"))));
      parts.push_back({x.dtype, with_extent(x.shape, axis, size), x.format});
      total += size;
    }
    if (total != x.shape[axis])
      user_error("sizes must sum to the {} of dimension {} of x, found {}", x.shape[axis], axis,
                 to_string(Attribute(site.integers("sizes"))));
    return parts;
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const OpSite site = context.site();
    std::vector<ValueId> parts;
    for (int i = 0; i < site.outputs(); ++i)
      if (context.gradient(i)) parts.push_back(context.gradient(i));
    if (static_cast<int>(parts.size()) == site.outputs()) {
      context.contribute(0, context.emit("concat", "grad", std::move(parts), {{"axis", site.integer("axis")}})[0]);
      return;
    }
    // Where nothing flows into a part, the others are put into zeros.
    const int axis = concat_axis(site);
    std::int64_t before = 0;
    for (int i = 0; i < site.outputs(); ++i) {
      const std::int64_t size = site.out(i).shape[axis];
      if (context.gradient(i)) {
        std::vector<std::int64_t> low(static_cast<std::size_t>(site.in(0).shape.rank()), 0), high = low;
        low[static_cast<std::size_t>(axis)] = before;
        high[static_cast<std::size_t>(axis)] = site.in(0).shape[axis] - before - size;
        context.contribute(0, context.emit("pad", "grad", {context.gradient(i)}, {{"before", low}, {"after", high}})[0]);
      }
      before += size;
    }
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override { return boxes_at(site, output); }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return boxes_at(site, driver); }
  bool cheap(const OpSite&) const override { return true; }

 private:
  // All parts are cut at once, so the axis is whole whichever value `box` is of.
  static CallBoxes boxes_at(const OpSite& site, const Box& box) {
    const int axis = concat_axis(site);
    CallBoxes boxes{{with_whole(box, axis, site.in(0).shape[axis])}, {}};
    for (int i = 0; i < site.outputs(); ++i) boxes.out.push_back(with_whole(box, axis, site.out(i).shape[axis]));
    return boxes;
  }
};

}  // namespace

void define_concat(OpList& list) {
  static const Concat concat;
  static const Split split;
  list.insert(list.end(), {&concat, &split});
}

}  // namespace outsize
