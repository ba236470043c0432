#include "graph/graph.h"

#include "graph/opdef.h"
#include "graph_test_support.h"

namespace outsize {
namespace {

// A kind with every sort of attribute and three outputs, of which the last has no default name.
class Probe final : public OpDef {
 public:
  std::string_view kind() const override { return "probe"; }
  std::string_view help() const override { return "a kind for tests"; }
  std::vector<std::string_view> input_names() const override { return {"x", "y?"}; }
  std::vector<std::string_view> output_names() const override { return {"", "side"}; }
  std::vector<AttributeSpec> attribute_specs() const override {
    return {{"count", std::int64_t{3}, ""},
            {"rate", 0.5, ""},
            {"mode", std::string("fast"), ""},
            {"sizes", std::vector<std::int64_t>{1, 2}, ""}};
  }
  std::vector<ValueType> infer(const OpSite& site) const override {
    return {site.in(0), site.in(0), {DType::f64, {7}, Format::plain}};
  }
};

const Probe kProbe;
const ValueType kVector{DType::f32, {4, 6}, Format::plain};

TEST(Graph, FillsInAttributesAndNames) {
  Graph graph;
  const ValueId x = graph.add_value("x", kVector, Role::input);
  const OpId id = graph.add_op("p", kProbe, {x, x}, {{"rate", std::int64_t{2}}}, {"out"});
  const OpSite site{graph, graph.op(id)};
  EXPECT_EQ(site.integer("count"), 3);
  EXPECT_EQ(site.number("rate"), 2.0);  // an integer serves as a number
  EXPECT_EQ(site.word("mode"), "fast");
  EXPECT_EQ(site.integers("sizes"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_THROW(site.integer("nothing"), InternalError);
  EXPECT_THROW(site.integer("rate"), InternalError);

  EXPECT_EQ(graph.value(site.op.outputs[0]).name, "out");
  EXPECT_EQ(graph.value(site.op.outputs[1]).name, "p.side");
  EXPECT_EQ(graph.value(site.op.outputs[2]).name, "p.2");
  EXPECT_EQ(graph.value(site.op.outputs[1]).producer, id);
  EXPECT_EQ(graph.value(site.op.outputs[1]).producer_output, 1);
  EXPECT_EQ(graph.value(x).consumers, std::vector<OpId>{id});  // read twice, listed once
  EXPECT_EQ(graph.find_value("p.side"), site.op.outputs[1]);
  EXPECT_EQ(graph.find_op("p"), id);
  EXPECT_FALSE(graph.find_op("q"));
}

TEST(Graph, DefaultNamesMakeWay) {
  Graph graph;
  const ValueId x = graph.add_value("p", kVector, Role::input);
  const OpId id = graph.add_op("p", kProbe, {x}, {}, {"", "p.2"});
  EXPECT_EQ(graph.value(graph.op(id).outputs[0]).name, "p.1");
  EXPECT_EQ(graph.value(graph.op(id).outputs[2]).name, "p.2.1");
  EXPECT_EQ(graph.fresh_value_name("p"), "p.3");
  EXPECT_EQ(graph.fresh_op_name("p"), "p.1");
}

TEST(Graph, RefusedOpLeavesNoTrace) {
  Graph graph;
  const ValueId x = graph.add_value("x", kVector, Role::input);
  EXPECT_EQ(message_of<UserError>([&] {
              graph.add_op("p", kProbe, {x}, {}, {"a", "a"});
            }),
            "op p (probe): value 'a' is defined twice");
  EXPECT_EQ(message_of<UserError>([&] {
              graph.add_op("p", kProbe, {x}, {{"mode", std::string("5x")}});
            }),
            "op p (probe): attribute mode: expected a word, found 5x");
  EXPECT_EQ(message_of<UserError>([&] {
              graph.add_op("p", kProbe, {x}, {{"zzzzzz", std::int64_t{1}}});
            }),
            "op p (probe): unknown attribute 'zzzzzz'; probe takes count, rate, mode, sizes");
  EXPECT_EQ(message_of<UserError>([&] { graph.add_op("p q", kProbe, {x}); }),
            "op name 'p q' may hold only letters, digits and _ . - /");
  EXPECT_EQ(graph.value_count(), 1);
  EXPECT_EQ(graph.op_count(), 0);
  EXPECT_TRUE(graph.value(x).consumers.empty());
}

TEST(Graph, ReferencesSurviveGrowth) {
  Graph graph;
  const ValueId x = graph.add_value("x", kVector, Role::input);
  const Value& first = graph.value(x);
  const Op& op = graph.op(graph.add_op("p", kProbe, {x}));
  for (int i = 0; i < 1000; ++i) graph.add_op(graph.fresh_op_name("q" + std::to_string(i)), kProbe, {x});
  EXPECT_EQ(&first, &graph.value(x));
  EXPECT_EQ(op.name, "p");
}

TEST(Graph, OutputsAreListedOnce) {
  Graph graph;
  const ValueId x = graph.add_value("x", kVector, Role::input);
  graph.add_output(x);
  graph.add_output(x);
  EXPECT_EQ(graph.outputs(), std::vector<ValueId>{x});
  EXPECT_TRUE(graph.is_output(x));
}

TEST(OpDef, DefaultBoxesArePointwise) {
  Graph graph;
  const ValueId x = graph.add_value("x", kVector, Role::input);
  const ValueId y = graph.add_value("y", {DType::f32, {6}, Format::plain}, Role::input);
  const OpSite site{graph, graph.op(graph.add_op("p", kProbe, {x, y}))};
  const Box box({1, 2}, {3, 5});
  for (const CallBoxes& boxes : {kProbe.gather(site, box), kProbe.push(site, box)}) {
    EXPECT_EQ(boxes.in, (std::vector<Box>{box, Box::whole({6})}));
    EXPECT_EQ(boxes.out, (std::vector<Box>{box, box, Box::whole({7})}));
  }
  // Read: 2·3 and 6 floats; written: 6 and 6 floats, 7 doubles.
  const Cost cost = kProbe.cost(site, kProbe.gather(site, box));
  EXPECT_EQ(cost.bytes, (6 + 6 + 6 + 6) * 4 + 7 * 8);
  EXPECT_EQ(cost.flops, 6 + 6 + 7);
}

TEST(OpDef, RegistryFindsByKind) {
  register_ops();
  ASSERT_NE(find_op_def("relu"), nullptr);
  EXPECT_EQ(find_op_def("relu")->kind(), "relu");
  EXPECT_EQ(find_op_def("relo"), nullptr);
}

}  // namespace
}  // namespace outsize
