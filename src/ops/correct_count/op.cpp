#include "ops/logits.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class CorrectCount final : public OpDef {
 public:
  std::string_view kind() const override { return "correct_count"; }
  Use use() const override { return Use::correct_count; }
  std::string_view help() const override {
    return "how many rows (or positions of a map) have their label among the k largest logits, as f64[1]; of equal logits the "
           "earlier class counts as larger";
  }
  std::vector<std::string_view> input_names() const override { return {"logits", "labels"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {{"k", std::int64_t{1}, "at least 1"}}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_logits_and_labels(site);
    if (site.integer("k") < 1) user_error("attribute k must be at least 1, found {}", site.integer("k"));
    return {{DType::f64, {1}, Format::plain}};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }
  // A count does not change by small steps.
  void gradient(GradientContext&) const override {}

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {{logits_box(site, driver), labels_box(site, driver)}, {Box::whole(site.out(0).shape)}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

}  // namespace

void define_correct_count(OpList& list) {
  static const CorrectCount correct_count;
  list.push_back(&correct_count);
}

}  // namespace outsize
