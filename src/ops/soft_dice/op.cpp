#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// The coordinates of labels from those of p: without the channel.
Dims without_channel(const Dims& dims) {
  Dims rest;
  for (int i = 0; i < dims.rank(); ++i)
    if (i != 1) rest.push_back(dims[i]);
  return rest;
}
Dims with_channel(const Dims& dims, std::int64_t channel) {
  Dims all{dims[0], channel};
  for (int i = 1; i < dims.rank(); ++i) all.push_back(dims[i]);
  return all;
}

// The columns of [3, N·C] that belong to these samples.
Box sums_box(Interval samples, std::int64_t channels) { return {{0, samples.lo * channels}, {3, samples.hi * channels}}; }

// p's box with all channels, and the target's.
Box all_channels(Box box, std::int64_t channels) {
  box.set(1, {0, channels});
  return box;
}
Box target_box(const ValueType& target, const Box& p) {
  return target.dtype == DType::i32 ? Box(without_channel(p.lo), without_channel(p.hi)) : p;
}

class DiceSums final : public OpDef {
 public:
  std::string_view kind() const override { return "dice_sums"; }
  std::string_view help() const override {
    return "rows Σ p·t, Σ p and Σ t over the positions of every sample and channel; i32 labels are read as one-hot targets, one "
           "that is no channel belongs to none";
  }
  std::vector<std::string_view> input_names() const override { return {"p", "target"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_float(site, 0);
    const ValueType& p = site.in(0);
    if (p.shape.rank() < 2) user_error("input p must be [N, C, ...], found {}", to_string(p));
    if (site.in(1).dtype == DType::i32)
      expect_type(site, 1, {DType::i32, without_channel(p.shape), Format::plain}, "one label a position of p");
    else
      expect_type(site, 1, p, "as p");
    return {{p.dtype, {3, p.shape[0] * p.shape[1]}, Format::plain}};
  }
  Role output_role(const OpSite&, int) const override { return Role::statistic; }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const std::string format = context.site().in(0).format == Format::map ? "map" : "plain";
    context.contribute(0, context.emit("dice_sums_grad", "grad", {context.gradient(0), context.input(1)}, {{"format", format}})[0]);
  }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const std::int64_t channels = site.in(0).shape[1];
    const Box p = all_channels(driver, channels);
    return {{p, target_box(site.in(1), p)}, {sums_box(p[0], channels)}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

class DiceSumsGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "dice_sums_grad"; }
  std::string_view help() const override { return "the gradient of dice_sums with respect to p: dsums[0]·t + dsums[1]"; }
  std::vector<std::string_view> input_names() const override { return {"dsums", "target"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"format", std::string("plain"), "of the result: plain or map"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_plain(site, 0, 2, "[3, N·C]");
    const ValueType& sums = site.in(0);
    const ValueType& target = site.in(1);
    const std::string& format = site.word("format");
    if (format != "plain" && format != "map") user_error("attribute format must be plain or map, found {}", format);
    const std::int64_t samples = target.shape.rank() > 0 ? target.shape[0] : 0;
    if (sums.shape[0] != 3 || samples == 0 || sums.shape[1] % samples != 0)
      user_error("input dsums must be [3, N·C] for a target {}, found {}", to_string(target), to_string(sums));
    ValueType p{sums.dtype, target.shape, format == "map" ? Format::map : Format::plain};
    if (target.dtype == DType::i32)
      p.shape = with_channel(target.shape, sums.shape[1] / samples);
    else
      expect_type(site, 1, p, "as p");
    return {p};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const std::int64_t channels = site.out(0).shape[1];
    const Box p = all_channels(output, channels);
    return {{sums_box(p[0], channels), target_box(site.in(1), p)}, {p}};
  }
  int push_driver(const OpSite&) const override { return 1; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    if (site.in(1).dtype != DType::i32) return gather(site, driver);
    return gather(site, {with_channel(driver.lo, 0), with_channel(driver.hi, 0)});
  }
  bool cheap(const OpSite&) const override { return true; }
};

const AttributeSpec kSmooth{"smooth", 1.0, "what is added to both parts of the fraction, at least 0"};

void expect_sums(const OpSite& site) {
  expect_plain(site, 0, 2, "[3, N·C]");
  if (site.in(0).shape[0] != 3) user_error("input sums must be [3, N·C], found {}", to_string(site.in(0)));
  if (!(site.number("smooth") >= 0)) user_error("attribute smooth must be at least 0, found {}", site.number("smooth"));
}

class DiceLoss final : public OpDef {
 public:
  std::string_view kind() const override { return "dice_loss"; }
  std::string_view help() const override {
    return "the mean over samples and channels of 1 - (2 Σ p·t + smooth) / (Σ p + Σ t + smooth)";
  }
  std::vector<std::string_view> input_names() const override { return {"sums"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {kSmooth}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_sums(site);
    return {{site.in(0).dtype, {1}, Format::plain}};
  }

  void gradient(GradientContext& context) const override {
    if (!context.wants(0)) return;
    const Attributes attributes{{"smooth", context.site().number("smooth")}};
    context.contribute(0, context.emit("dice_loss_grad", "grad", {context.input(0), context.gradient(0)}, attributes)[0]);
  }
};

class DiceLossGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "dice_loss_grad"; }
  std::string_view help() const override { return "the gradient of dice_loss with respect to its sums"; }
  std::vector<std::string_view> input_names() const override { return {"sums", "dloss"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return {kSmooth}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_sums(site);
    expect_type(site, 1, {site.in(0).dtype, {1}, Format::plain}, "the loss's");
    return {site.in(0)};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  // A column needs all three of its sums.
  CallBoxes gather(const OpSite& site, const Box& output) const override {
    Box columns = output;
    columns.set(0, {0, 3});
    return {{columns, Box::whole(site.in(1).shape)}, {columns}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }
  bool cheap(const OpSite&) const override { return true; }
};

}  // namespace

void define_soft_dice(OpList& list) {
  static const DiceSums dice_sums;
  static const DiceSumsGrad dice_sums_grad;
  static const DiceLoss dice_loss;
  static const DiceLossGrad dice_loss_grad;
  list.insert(list.end(), {&dice_sums, &dice_sums_grad, &dice_loss, &dice_loss_grad});
}

}  // namespace outsize
