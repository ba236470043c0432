#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class LabelCount final : public OpDef {
 public:
  std::string_view kind() const override { return "label_count"; }
  std::string_view help() const override { return "how many labels are not ignore_index"; }
  std::vector<std::string_view> input_names() const override { return {"labels"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"ignore_index", std::int64_t{-100}, "the label that is not counted"},
            {"dtype", std::string("f32"), "of the count: f32 or f64"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    if (site.in(0).dtype != DType::i32 || site.in(0).format != Format::plain)
      user_error("input labels must be plain i32, found {}", to_string(site.in(0)));
    const std::string& dtype = site.word("dtype");
    if (dtype != "f32" && dtype != "f64") user_error("attribute dtype must be f32 or f64, found {}", dtype);
    return {{dtype == "f64" ? DType::f64 : DType::f32, {1}, Format::plain}};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }

  std::optional<std::int64_t> uncounted_label(const OpSite& site) const override { return site.integer("ignore_index"); }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return {{driver}, {Box::whole(site.out(0).shape)}}; }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

}  // namespace

void define_label_count(OpList& list) {
  static const LabelCount label_count;
  list.push_back(&label_count);
}

}  // namespace outsize
