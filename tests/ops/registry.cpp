#include "ops/registry.h"

#include <set>

#include "all_cases.h"
#include "subject.h"

namespace outsize::test {
namespace {

TEST(Registry, EveryKindIsInSomeCase) {
  std::set<std::string_view> seen;
  for (const auto& [op, cases] : all_cases())
    for (const OpCase& op_case : cases) {
      if (op_case.bench) continue;
      const CaseGraph graph(op_case, DType::f32);
      for (const Op& made : graph.graph.ops()) seen.insert(made.def->kind());
    }
  for (const OpDef* def : all_op_defs())
    EXPECT_TRUE(seen.contains(def->kind())) << def->kind()
                                            << " is in no case's graph, forward or differentiated: add one to its cases.h";
}

TEST(Registry, EveryBackendHasEveryKind) {
  register_ops();
  for (const Backend& backend : backends())
    for (const OpDef* def : all_op_defs())
      EXPECT_TRUE(backend.table->has(def->kind())) << backend.name << " has no kernel for " << def->kind();
}

TEST(Registry, KindsAreDistinctAndDescribed) {
  register_ops();
  std::set<std::string_view> kinds;
  for (const OpDef* def : all_op_defs()) {
    EXPECT_TRUE(kinds.insert(def->kind()).second) << def->kind() << " is defined twice";
    EXPECT_FALSE(def->help().empty()) << def->kind();
    for (const AttributeSpec& attribute : def->attribute_specs())
      EXPECT_FALSE(attribute.help.empty()) << def->kind() << " " << attribute.name;
  }
}

}  // namespace
}  // namespace outsize::test
