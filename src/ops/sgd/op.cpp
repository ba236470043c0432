#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class Sgd final : public OpDef {
 public:
  std::string_view kind() const override { return "sgd"; }
  std::string_view help() const override {
    return "one step of stochastic gradient descent: g += weight_decay·p; buffer = momentum·buffer + g; p -= lr·buffer";
  }
  std::vector<std::string_view> input_names() const override { return {"param", "grad", "lr", "buffer?"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"momentum", 0.0, "the weight of the buffer; 0 means none, and no buffer"},
            {"weight_decay", 0.0, "the weight of the parameter in its gradient"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    const ValueType& param = site.in(0);
    expect_type(site, 1, param, "as param");
    expect_type(site, 2, {param.dtype, {1}, Format::plain}, "one number of param's type");
    const double momentum = site.number("momentum");
    if ((momentum != 0) != has_buffer(site))
      user_error("buffer must be given exactly if momentum is not 0, found momentum {} and {} buffer", momentum,
                 has_buffer(site) ? "a" : "no");
    if (!has_buffer(site)) return {param};
    expect_type(site, kBuffer, param, "as param");
    return {param, param};
  }

  // Pointwise; said here because lr is whole even where the parameter has lr's shape.
  CallBoxes gather(const OpSite& site, const Box& output) const override {
    CallBoxes boxes{{output, output, Box::whole(site.in(2).shape)}, {output}};
    if (has_buffer(site)) {
      boxes.in.push_back(output);
      boxes.out.push_back(output);
    }
    return boxes;
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }

  std::vector<InPlacePair> updates(const OpSite& site) const override {
    if (has_buffer(site)) return {{0, 0}, {1, kBuffer}};
    return {{0, 0}};
  }
  bool cheap(const OpSite&) const override { return true; }

 private:
  static constexpr int kBuffer = 3;
  static bool has_buffer(const OpSite& site) { return site.inputs() > kBuffer; }
};

}  // namespace

void define_sgd(OpList& list) {
  static const Sgd sgd;
  list.push_back(&sgd);
}

}  // namespace outsize
