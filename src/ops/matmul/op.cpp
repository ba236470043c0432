#include "ops/plain_rows.h"
#include "ops/registry.h"

namespace outsize {
namespace {

// The last two dimensions of an operand as the product sees them.
struct MatrixDims {
  int rows;
  int columns;
};

MatrixDims matrix_dims(const OpSite& site, int input) {
  const int rank = site.in(input).shape.rank();
  const bool transposed = site.integer(input == 0 ? "transpose_a" : "transpose_b") != 0;
  return transposed ? MatrixDims{rank - 1, rank - 2} : MatrixDims{rank - 2, rank - 1};
}

// y = a · b for every matrix of the leading dimensions.
class Matmul final : public OpDef {
 public:
  std::string_view kind() const override { return "matmul"; }
  std::string_view help() const override { return "the products of matrices in the last two dimensions, the leading ones equal"; }
  std::vector<std::string_view> input_names() const override { return {"a", "b"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"transpose_a", std::int64_t{0}, "1: a is [..., K, M], not [..., M, K]"},
            {"transpose_b", std::int64_t{0}, "1: b is [..., N, K], not [..., K, N]"}};
  }

  std::vector<ValueType> infer(const OpSite& site) const override {
    expect_rows(site, 0, 2, "[..., M, K]");
    const ValueType& a = site.in(0);
    const int rank = a.shape.rank();
    expect_plain(site, 1, rank, "of a's rank");
    const MatrixDims of_a = matrix_dims(site, 0), of_b = matrix_dims(site, 1);
    const std::int64_t columns = site.in(1).shape[of_b.columns];
    ValueType b = a;
    b.shape[of_b.rows] = a.shape[of_a.columns];
    b.shape[of_b.columns] = columns;
    expect_type(site, 1, b, "a's dtype and leading dimensions, and as many rows as a has columns");
    ValueType y = a;
    y.shape[rank - 2] = a.shape[of_a.rows];
    y.shape[rank - 1] = columns;
    return {y};
  }

  // With y = op(a) · op(b): d op(a) = dy · op(b)ᵀ and d op(b) = op(a)ᵀ · dy, or those products transposed.
  void gradient(GradientContext& context) const override {
    const ValueId dy = context.gradient(0);
    if (!dy) return;
    const std::int64_t ta = context.site().integer("transpose_a"), tb = context.site().integer("transpose_b");
    const auto product = [&](std::string_view suffix, ValueId left, std::int64_t transpose_left, ValueId right,
                             std::int64_t transpose_right) {
      return context.emit("matmul", suffix, {left, right}, {{"transpose_a", transpose_left}, {"transpose_b", transpose_right}})[0];
    };
    const ValueId a = context.input(0), b = context.input(1);
    if (context.wants(0)) context.contribute(0, ta == 0 ? product("grad_a", dy, 0, b, 1 - tb) : product("grad_a", b, tb, dy, 1));
    if (context.wants(1)) context.contribute(1, tb == 0 ? product("grad_b", a, 1 - ta, dy, 0) : product("grad_b", dy, 1, a, ta));
  }

  CallBoxes gather(const OpSite& site, const Box& output) const override {
    const int rank = output.rank();
    const MatrixDims of_a = matrix_dims(site, 0), of_b = matrix_dims(site, 1);
    const Interval inner{0, site.in(0).shape[of_a.columns]};
    Box a = output, b = output;
    a.set(of_a.rows, output[rank - 2]);
    a.set(of_a.columns, inner);
    b.set(of_b.rows, inner);
    b.set(of_b.columns, output[rank - 1]);
    return {{a, b}, {output}};
  }
  // Rows of a, whole, give rows of y.
  CallBoxes push(const OpSite& site, const Box& driver) const override {
    Box output = driver;
    output.set(driver.rank() - 2, driver[matrix_dims(site, 0).rows]);
    return gather(site, with_last(output, {0, last_extent(site.out(0).shape)}));
  }

  Cost cost(const OpSite& site, const CallBoxes& boxes) const override {
    Cost cost = OpDef::cost(site, boxes);
    cost.flops = 2.0 * static_cast<double>(boxes.in[0].elements()) * static_cast<double>(last_range(boxes.out[0]).size());
    return cost;
  }
};

}  // namespace

void define_matmul(OpList& list) {
  static const Matmul matmul;
  list.push_back(&matmul);
}

}  // namespace outsize
