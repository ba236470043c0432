#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

class ChannelSum final : public OpDef {
 public:
  std::string_view kind() const override { return "channel_sum"; }
  std::string_view help() const override { return "the sum of a map over samples and space, one number a channel"; }
  std::vector<std::string_view> input_names() const override { return {"x"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_any_map(site, 0);
    return {{site.in(0).dtype, {site.in(0).shape[1]}, Format::plain}};
  }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite&, const Box& driver) const override { return {{driver}, {Box{{driver.lo[1]}, {driver.hi[1]}}}}; }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops = static_cast<double>(boxes.in[0].elements());
    return cost;
  }
};

}  // namespace

void define_channel_sum(OpList& list) {
  static const ChannelSum channel_sum;
  list.push_back(&channel_sum);
}

}  // namespace outsize
