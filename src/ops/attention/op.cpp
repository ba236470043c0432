#include "ops/attention/attention.h"
#include "ops/dropout/dropout.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace outsize {
namespace {

std::vector<AttributeSpec> attention_specs() {
  return {{"heads", std::int64_t{1}, "H: the last dimension is split among so many heads"},
          {"causal", std::int64_t{0}, "1: query i sees the keys up to i + Tk - Tq only"},
          {"scale", 0.0, "the factor on q · k; 0: 1 / sqrt(D)"},
          {"mask", std::int64_t{0}, "1: an input after v is added to the scores"},
          {"p", 0.0, "the probability that a weight is dropped; above 0 the last input is the key"},
          {"stream", std::int64_t{0}, "which random numbers of the key, as dropout's"}};
}

Attributes attention_attributes(const OpSite& site) {
  return {{"heads", site.integer("heads")}, {"causal", site.integer("causal")},
          {"scale", site.number("scale")},  {"mask", site.integer("mask")},
          {"p", site.number("p")},          {"stream", site.integer("stream")}};
}

// Inputs q, k, v from `first` on, and mask and key after `fixed` inputs, fit each other and the attributes.
void expect_attention(const OpSite& site, int first, int fixed) {
  for (int i = first; i < first + 3; ++i) expect_plain(site, i, 3, "[B, T, E]");
  const ValueType& q = site.in(first);
  const Dims key_shape{q.shape[0], site.in(first + 1).shape[1], q.shape[2]};
  for (int i = first + 1; i < first + 3; ++i)
    expect_type(site, i, {q.dtype, key_shape, Format::plain}, "q's dtype, samples and features, and as many keys as values");
  const std::int64_t heads = site.integer("heads");
  if (heads < 1 || q.shape[2] % heads != 0)
    user_error("attribute heads must divide the {} features of q, found {}", q.shape[2], heads);
  const double p = site.number("p");
  if (!(p >= 0 && p < 1) || dropout_threshold(p) > 0xFFFFFFFF)
    user_error("attribute p must be at least 0 and below 1, found {}", p);
  const std::int64_t stream = site.integer("stream");
  if (stream < 0 || stream > 0xFFFFFFFF) user_error("attribute stream must be from 0 to 2^32 - 1, found {}", stream);

  const AttentionShape shape(site, first, fixed);
  const int expected = fixed + (shape.mask >= 0 ? 1 : 0) + (shape.key >= 0 ? 1 : 0);
  if (site.inputs() != expected)
    user_error("there must be {} inputs with mask={} and p={} (the mask, then the key), found {}", expected, site.integer("mask"),
               p, site.inputs());
  if (shape.mask >= 0) {
    const ValueType& mask = site.in(shape.mask);
    const Dims scores{shape.samples, heads, shape.queries, shape.keys};
    bool fits = mask.dtype == q.dtype && mask.format == Format::plain && mask.shape.rank() == 4 && mask.shape[3] == shape.keys;
    for (int dim = 0; fits && dim < 3; ++dim) fits = mask.shape[dim] == 1 || mask.shape[dim] == scores[dim];
    if (!fits)
      user_error("input mask must be plain {} {}, or 1 instead of any of the first three, found {}", name_of(q.dtype),
                 to_string(scores), to_string(mask));
  }
  if (shape.key >= 0)
    expect_type(site, shape.key, {DType::i32, {4}, Format::plain}, "two words of the seed, the step, one reserved");
}

ValueType lse_type(const OpSite& site, int q) {
  const Dims& shape = site.in(q).shape;
  return {site.in(q).dtype, {shape[0], site.integer("heads"), shape[1]}, Format::plain};
}

// What a call computes: samples, queries and heads may be split; keys are needed whole.
struct Part {
  Interval samples;
  Interval queries;
  Interval heads;
  std::int64_t width;
  std::int64_t keys;

  // That of a box of q: the heads that its features meet.
  Part(const AttentionShape& shape, const Box& q)
      : samples(q[0]),
        queries(q[1]),
        heads{q.lo[2] / shape.width, (q.hi[2] + shape.width - 1) / shape.width},
        width(shape.width),
        keys(shape.keys) {}

  Box q() const { return rows(queries); }
  Box k() const { return rows({0, keys}); }
  Box lse() const { return {{samples.lo, heads.lo, queries.lo}, {samples.hi, heads.hi, queries.hi}}; }

 private:
  Box rows(Interval range) const { return {{samples.lo, range.lo, heads.lo * width}, {samples.hi, range.hi, heads.hi * width}}; }
};

// Mask and key of the boxes of a call.
void append_extras(const OpSite& site, const AttentionShape& shape, const Part& part, std::vector<Box>& in) {
  if (shape.mask >= 0) {
    Box box = Box::whole(site.in(shape.mask).shape);
    if (box.hi[0] > 1) box.set(0, part.samples);
    if (box.hi[1] > 1) box.set(1, part.heads);
    if (box.hi[2] > 1) box.set(2, part.queries);
    in.push_back(box);
  }
  if (shape.key >= 0) in.push_back(Box::whole({4}));
}

// Two products of every query and key it sees, in the forward; five in the backward.
Cost attention_cost(Cost bytes, const AttentionShape& shape, const Box& q, double products) {
  const double seen = static_cast<double>(shape.keys) * (shape.causal ? 0.5 : 1.0);
  bytes.flops = products * 2 * static_cast<double>(q.elements()) * seen;
  return bytes;
}

class Attention final : public OpDef {
 public:
  std::string_view kind() const override { return "attention"; }
  std::string_view help() const override {
    return "softmax(scale * q kᵀ + mask) v for every head, without a matrix of all scores; also log Σ e^score of every query";
  }
  std::vector<std::string_view> input_names() const override { return {"q", "k", "v", "mask?", "key?"}; }
  std::vector<std::string_view> output_names() const override { return {"", "lse"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return attention_specs(); }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_attention(site, 0, 3);
    return {site.in(0), lse_type(site, 0)};
  }

  // The mask has none: it is made of ids or is a constant.
  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy || !(context.wants(0) || context.wants(1) || context.wants(2))) return;
    const OpSite site = context.site();
    std::vector<ValueId> inputs{dy, context.input(0), context.input(1), context.input(2), context.output(0), context.output(1)};
    for (int i = 3; i < site.inputs(); ++i) inputs.push_back(context.input(i));
    const std::vector<ValueId> grads = context.emit("attention_grad", "grad", std::move(inputs), attention_attributes(site));
    for (int i = 0; i < 3; ++i)
      if (context.wants(i)) context.contribute(i, grads[static_cast<std::size_t>(i)]);
  }

  // Without dropout, and so without its key.
  void evaluate(EvaluationContext& context) const override {
    const OpSite site = context.site();
    if (site.number("p") == 0) return OpDef::evaluate(context);
    std::vector<ValueId> inputs;
    for (int i = 0; i + 1 < site.inputs(); ++i) inputs.push_back(context.input(i));
    Attributes attributes = site.op.attributes;
    attributes["p"] = 0.0;
    context.emit("attention", std::move(inputs), std::move(attributes));
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const AttentionShape shape = attention_shape(site);
    const Part part(shape, output);
    CallBoxes boxes{{part.q(), part.k(), part.k()}, {part.q(), part.lse()}};
    append_extras(site, shape, part, boxes.in);
    return boxes;
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override { return gather(site, driver); }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    return attention_cost(OpDef::cost(site, boxes), attention_shape(site), boxes.in[0], 2);
  }
};

class AttentionGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "attention_grad"; }
  std::string_view help() const override {
    return "the gradients of attention with respect to q, k and v; the weights are made again";
  }
  std::vector<std::string_view> input_names() const override { return {"dy", "q", "k", "v", "y", "lse", "mask?", "key?"}; }
  std::vector<std::string_view> output_names() const override { return {"", "k", "v"}; }
  std::vector<AttributeSpec> attribute_specs() const override { return attention_specs(); }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_attention(site, 1, 6);
    expect_type(site, 0, site.in(1), "as q");
    expect_type(site, 4, site.in(1), "as q");
    expect_type(site, 5, lse_type(site, 1), "one number a sample, head and query");
    return {site.in(1), site.in(2), site.in(3)};
  }

  // Keys gather from all queries, queries from all keys.
  CallBoxes gather(const OpSite& site, const Box& output) const override {
    Box all = output;
    all.set(1, {0, site.in(1).shape[1]});
    return push(site, all);
  }
  // Queries push parts of the sums of all keys.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    const AttentionShape shape = attention_grad_shape(site);
    const Part part(shape, driver);
    const Box q = part.q(), k = part.k();
    CallBoxes boxes{{q, q, k, k, q, part.lse()}, {q, k, k}};
    append_extras(site, shape, part, boxes.in);
    return boxes;
  }
  Combine combine(const OpSite&, int output) const override { return output == 0 ? Combine::none : Combine::sum; }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    return attention_cost(OpDef::cost(site, boxes), attention_grad_shape(site), boxes.in[0], 5);
  }
};

}  // namespace

void define_attention(OpList& list) {
  static const Attention forward;
  static const AttentionGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
