#include "subject.h"

#include <algorithm>
#include <numeric>
#include <ostream>
#include <set>

#include "all_cases.h"

namespace outsize::test {

namespace {

// The folders with block programs for TF32. Others leave it to the card's libraries, which are not there on the host.
const std::set<std::string> kOwnInTf32{"attention"};

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

void evaluate(const Backend& backend, const CaseGraph& graph, const std::vector<OpId>& ops, Values& values) {
  order_blocks(backend);
  checks::evaluate(backend, graph, ops, values, fail);
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
