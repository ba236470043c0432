#include "subject.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <set>

#include "all_cases.h"
#include "graph/fusion.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace outsize::test {

namespace {

constexpr std::uint64_t kSeed = 20220402;

// The folders with block programs for TF32. Others leave it to the card's libraries, which are not there on the host.
const std::set<std::string> kOwnInTf32{"attention"};

std::size_t at(ValueId id) { return static_cast<std::size_t>(id.index); }

std::string in_precision(std::string text, DType dtype) {
  if (dtype == DType::f32) return text;
  for (std::size_t found = text.find("f32"); found != std::string::npos; found = text.find("f32", found))
    text.replace(found, 3, name_of(dtype));
  return text;
}

}  // namespace

std::vector<Subject> all_subjects(bool exact) {
  std::vector<Subject> subjects;
  for (const Backend& backend : backends())
    for (const auto& [op, cases] : all_cases())
      for (const OpCase& op_case : cases)
        if (!op_case.bench && (exact || &backend != &exact_backend())) subjects.push_back({op, op_case, &backend});
  for (const Backend& backend : tf32_backends())
    for (const auto& [op, cases] : all_cases())
      for (const OpCase& op_case : cases)
        if (!op_case.bench && kOwnInTf32.contains(op)) subjects.push_back({op, op_case, &backend});
  return subjects;
}

std::vector<Subject> exact_subjects() {
  std::vector<Subject> subjects = all_subjects(true);
  std::erase_if(subjects, [](const Subject& subject) { return subject.backend != &exact_backend(); });
  return subjects;
}

std::string name_of(const ::testing::TestParamInfo<Subject>& info) {
  const Subject& subject = info.param;
  std::string name = fmt::format("{}_{}_{}", subject.op, subject.op_case.name, subject.backend->name);
  // GoogleTest takes only letters, digits and underscores.
  std::replace_if(
      name.begin(), name.end(), [](unsigned char letter) { return !std::isalnum(letter); }, '_');
  return name;
}

std::ostream& operator<<(std::ostream& stream, const Subject& subject) {
  return stream << subject.op << "/" << subject.op_case.name << " on " << subject.backend->name;
}

CaseGraph::CaseGraph(const OpCase& op_case, DType dtype, bool fused) {
  register_ops();
  graph = parse_graph(in_precision(op_case.graph, dtype), op_case.name);
  if (fused) graph = fuse(graph);
  if (op_case.differentiate) {
    AutodiffOptions options{graph.outputs(), {}};
    for (std::int64_t i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(ValueId(i));
      if (value.role == Role::input && is_float(value.type.dtype)) options.with_respect.push_back(ValueId(i));
    }
    autodiff = differentiate(graph, options);
  }
  verify_graph(graph);
}

std::vector<OpId> CaseGraph::ops() const {
  std::vector<OpId> ids;
  for (std::int64_t i = 0; i < graph.op_count(); ++i) ids.emplace_back(i);
  return ids;
}

Values random_leaves(const CaseGraph& graph, const OpCase& op_case) {
  Random random(kSeed);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<std::int64_t> integer(op_case.integer_least, op_case.integer_limit - 1);
  Values values;
  for (const Value& value : graph.graph.values()) {
    Tensor& tensor = values.emplace_back(Tensor::zeros(value.type, Box::whole(value.type.shape)));
    if (value.producer) continue;
    for (double& number : tensor.numbers)
      number = is_float(value.type.dtype) ? static_cast<float>(normal(random)) : static_cast<double>(integer(random));
    if (std::ranges::find(op_case.positive, value.name) != op_case.positive.end())
      for (double& number : tensor.numbers) number = std::abs(number) + 0.25;
  }
  return values;
}

void evaluate(const Backend& backend, const CaseGraph& graph, const std::vector<OpId>& ops, Values& values) {
  for (OpId op : ops) {
    const OpSite site = graph.site(op);
    std::vector<Tensor> inputs;
    for (ValueId id : site.op.inputs) inputs.push_back(values[at(id)]);
    std::vector<Tensor> results = run_op(backend, site, inputs, whole(site));
    for (std::size_t i = 0; i < results.size(); ++i) values[at(site.op.outputs[i])] = std::move(results[i]);
  }
}

Bench::Bench(const OpCase& op_case, const Backend& backend)
    : backend_(backend),
      graph_(op_case, backend.dtype),
      exact_graph_(op_case, DType::f64),
      values_(random_leaves(exact_graph_, op_case)) {
  evaluate(exact_backend(), exact_graph_, exact_graph_.ops(), values_);
}

std::vector<OpId> Bench::ops() const {
  std::vector<OpId> offered = graph_.ops();
  std::erase_if(offered, [&](OpId op) { return !offers(backend_, graph_.site(op)); });
  return offered;
}

std::vector<Tensor> Bench::inputs(OpId op) const {
  std::vector<Tensor> inputs;
  for (ValueId id : graph_.graph.op(op).inputs) inputs.push_back(convert(values_[at(id)], graph_.graph.value(id).type.dtype));
  return inputs;
}

std::vector<Tensor> Bench::exact_inputs(OpId op) const {
  std::vector<Tensor> same = inputs(op);
  for (Tensor& input : same)
    if (is_float(input.type.dtype)) input = convert(input, DType::f64);
  return same;
}

std::vector<int> all_dimensions(const ValueType& type) {
  std::vector<int> dimensions(static_cast<std::size_t>(type.shape.rank()));
  std::iota(dimensions.begin(), dimensions.end(), 0);
  return dimensions;
}

std::vector<int> some_of(Random& random, std::vector<int> dimensions) {
  constexpr std::size_t kMost = 3;
  std::shuffle(dimensions.begin(), dimensions.end(), random);
  if (dimensions.size() > kMost) dimensions.resize(kMost);
  return dimensions;
}

Box random_box(Random& random, const ValueType& type) {
  Box box = Box::whole(type.shape);
  for (int dim : all_dimensions(type)) {
    const std::int64_t extent = type.shape[dim];
    const std::int64_t size = std::uniform_int_distribution<std::int64_t>(1, extent)(random);
    const std::int64_t lo = std::uniform_int_distribution<std::int64_t>(0, extent - size)(random);
    box.set(dim, {lo, lo + size});
  }
  return box;
}

std::vector<Box> random_partition(Random& random, const Dims& shape, const std::vector<int>& dimensions) {
  constexpr int kMostCuts = 3;
  std::vector<Box> boxes{Box::whole(shape)};
  for (int dim : dimensions) {
    std::set<std::int64_t> cuts{0, shape[dim]};
    for (int i = 0; i < kMostCuts; ++i) cuts.insert(std::uniform_int_distribution<std::int64_t>(0, shape[dim])(random));
    std::vector<Box> finer;
    for (const Box& box : boxes)
      for (auto lo = cuts.begin(), hi = std::next(lo); hi != cuts.end(); ++lo, ++hi) finer.emplace_back(box).set(dim, {*lo, *hi});
    boxes = std::move(finer);
  }
  return boxes;
}

}  // namespace outsize::test
