#include "ops/movement.h"

namespace outsize {
namespace {

// The elements keep their logical row-major order (N C H W for maps), whatever the backend's layout.
class Reshape final : public OpDef {
 public:
  std::string_view kind() const override { return "reshape"; }
  std::string_view help() const override { return "the same elements in row-major order under another shape, plain or map"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"shape", std::vector<std::int64_t>{}, "the new extents; one may be -1 and follows from the rest (required)"},
            {"format", std::string("plain"), "plain or map"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_movable(site, 0);
    const ValueType& x = site.in(0);
    const std::vector<std::int64_t>& wanted = site.integers("shape");
    if (wanted.empty() || wanted.size() > static_cast<std::size_t>(Dims::kMaxRank))
      user_error("shape must have 1 to {} extents, found {}", Dims::kMaxRank, to_string(Attribute(wanted)));
    std::int64_t known = 1;
    int open = -1;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == -1 && open < 0) {
        open = static_cast<int>(i);
      } else {
        if (wanted[i] < 1)
          user_error("shape must hold positive extents and at most one -1, found {}", to_string(Attribute(wanted)));
        if (wanted[i] > x.elements() / known) refuse(wanted, x);
        known *= wanted[i];
      }
    }
    Dims shape{std::span<const std::int64_t>(wanted)};
    if (open >= 0) shape[open] = x.elements() / known;
    if (shape.product() != x.elements()) refuse(wanted, x);
    const Format format = expect_format(site);
    expect_map_rank(shape, format);
    return {{x.dtype, shape, format}};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy || !context.wants(0)) return;
    const ValueType& x = context.site().in(0);
    Attributes attributes{{"shape", as_list(x.shape)}, {"format", format_word(x.format)}};
    context.contribute(0, context.emit("reshape", "grad", {dy}, std::move(attributes))[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override { return boxes_at(site, output); }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return boxes_at(site, driver); }

  InPlacePairs in_place(const OpSite& site) const override {
    if (site.in(0).format == Format::plain && site.out(0).format == Format::plain) return {{0, 0}};
    return {};
  }
  bool cheap(const OpSite&) const override { return true; }

 private:
  [[noreturn]] static void refuse(const std::vector<std::int64_t>& wanted, const ValueType& x) {
    user_error("shape {} must hold the {} elements of {}", to_string(Attribute(wanted)), x.elements(), to_string(x));
  }
  // Both boxes from the samples of either: ranges of dimension 0 correspond when both values have the same.
  static CallBoxes boxes_at(const OpSite& site, const Box& box) {
    CallBoxes boxes{{Box::whole(site.in(0).shape)}, {Box::whole(site.out(0).shape)}};
    if (site.in(0).shape[0] == site.out(0).shape[0]) {
      boxes.in[0].set(0, box[0]);
      boxes.out[0].set(0, box[0]);
    }
    return boxes;
  }
};

}  // namespace

void define_reshape(OpList& list) {
  static const Reshape reshape;
  list.push_back(&reshape);
}

}  // namespace outsize
