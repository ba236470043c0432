#include "ops/plain_rows.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// The ids that belong to rows: all dimensions but the last.
Dims without_last(const Dims& shape) { return Dims(std::span(shape.begin(), shape.end() - 1)); }
Box without_last(const Box& box) { return {without_last(box.lo), without_last(box.hi)}; }

Box table_box(std::int64_t rows, Interval columns) { return {{0, columns.lo}, {rows, columns.hi}}; }

class Embedding final : public OpDef {
 public:
  std::string_view kind() const override { return "embedding"; }
  std::string_view help() const override { return "the rows of a table that ids name; an id outside the table gives zeros"; }
  std::vector<std::string_view> input_names() const override { return {"ids", "table"}; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    const ValueType& ids = site.in(0);
    if (ids.dtype != DType::i32 || ids.format != Format::plain || ids.shape.rank() < 1 || ids.shape.rank() >= Dims::kMaxRank)
      user_error("input ids must be plain i32 of rank 1 to {}, found {}", Dims::kMaxRank - 1, to_string(ids));
    expect_plain(site, 1, 2, "[V, E]");
    Dims shape = ids.shape;
    shape.push_back(site.in(1).shape[1]);
    return {{site.in(1).dtype, shape, Format::plain}};
  }

  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy || !context.wants(1)) return;
    const Attributes attributes{{"rows", context.site().in(1).shape[0]}};
    context.contribute(1, context.emit("embedding_grad", "grad", {dy, context.input(0)}, attributes)[0]);
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    return {{without_last(output), table_box(site.in(1).shape[0], last_range(output))}, {output}};
  }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    Box output = driver;
    output.lo.push_back(0);
    output.hi.push_back(site.in(1).shape[1]);
    return gather(site, output);
  }

  // Rows that no id names are not read.
  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    const double elements = static_cast<double>(boxes.out[0].elements());
    return {elements, 2 * elements * static_cast<double>(size_of(site.out(0).dtype))};
  }
  bool cheap(const OpSite&) const override { return true; }
};

class EmbeddingGrad final : public OpDef {
 public:
  std::string_view kind() const override { return "embedding_grad"; }
  std::string_view help() const override { return "the gradient of embedding with respect to its table"; }
  std::vector<std::string_view> input_names() const override { return {"dy", "ids"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"rows", std::int64_t{0}, "rows of the table (required)"}};
  }
  Role output_role(const OpSite&, int) const override { return Role::gradient; }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_rows(site, 0, 2, "[..., E]");
    const ValueType& dy = site.in(0);
    expect_type(site, 1, {DType::i32, without_last(dy.shape), Format::plain}, "one id a row of dy");
    if (site.integer("rows") < 1) user_error("attribute rows must be at least 1, found {}", site.integer("rows"));
    return {{dy.dtype, {site.integer("rows"), last_extent(dy.shape)}, Format::plain}};
  }

  bool can_gather(const OpSite&) const override { return false; }
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    return {{driver, without_last(driver)}, {table_box(site.integer("rows"), last_range(driver))}};
  }
  Combine combine(const OpSite&, int) const override { return Combine::sum; }
};

}  // namespace

void define_embedding(OpList& list) {
  static const Embedding forward;
  static const EmbeddingGrad grad;
  list.insert(list.end(), {&forward, &grad});
}

}  // namespace outsize
