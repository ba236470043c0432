#include "graph/verify.h"

#include "graph_test_support.h"

namespace outsize {
namespace {

// x → r → a → q → b, and a parameter that is updated at the end.
Graph sound() {
  return graph_of(R"(graph g
input x f32[4]
input lr f32[1]
input d f32[4]
param w f32[4]
r: a = relu(x)
q: b = add(a, w)
s: w2 = sgd(w, d, lr)
output b
)");
}

template <class Break>
std::string refusal(Break break_it) {
  Graph graph = sound();
  break_it(graph);
  return message_of<InternalError>([&] { verify_graph(graph); });
}

TEST(Verify, SoundGraphPasses) { EXPECT_NO_THROW(verify_graph(sound())); }

TEST(Verify, FindsWrongOrder) {
  EXPECT_EQ(refusal([](Graph& g) { g.op(g.find_op("r")).inputs[0] = g.find_value("b"); }),
            "graph g: op r: reads 'b' before it is computed");
  EXPECT_EQ(refusal([](Graph& g) { g.op(g.find_op("r")).inputs[0] = ValueId(99); }),
            "graph g: op r: reads value #99, which does not exist");
}

TEST(Verify, FindsWrongTypes) {
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("b")).type.shape = {5}; }),
            "graph g: op q: output 'b' is f32[5], expected f32[4]");
  EXPECT_EQ(refusal([](Graph& g) { g.op(g.find_op("q")).outputs.clear(); }), "graph g: op q: has 0 outputs, expected 1");
}

TEST(Verify, FindsWrongLinks) {
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("a")).consumers.clear(); }),
            "graph g: value a: its list of consumers is wrong");
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("x")).consumers.push_back(OpId(1)); }),
            "graph g: value x: its list of consumers is wrong");
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("b")).producer = OpId(0); }),
            "graph g: value b: names op #0 as its producer, op #1 computes it");
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("b")).producer_output = 1; }),
            "graph g: value b: names output 1 of its producer, it is output 0");
  EXPECT_EQ(refusal([](Graph& g) { g.op(g.find_op("q")).outputs[0] = g.find_value("a"); }),
            "graph g: op q: output 'a' does not come after input 'a'");
}

TEST(Verify, FindsWrongNames) {
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("b")).name = "a"; }), "graph g: value a: two values have this name");
  EXPECT_EQ(refusal([](Graph& g) { g.op(g.find_op("q")).name = "z"; }), "graph g: op z: is not found by its name");
}

TEST(Verify, FindsWrongRolesAndPhases) {
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("b")).role = Role::parameter; }),
            "graph g: value b: has role parameter but a producer");
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("x")).role = Role::activation; }),
            "graph g: value x: has role activation but no producer");
  EXPECT_EQ(refusal([](Graph& g) { g.op(g.find_op("s")).phase = Phase::forward; }),
            "graph g: op s: has phase forward but replaces 1 values");
  EXPECT_EQ(refusal([](Graph& g) { g.op(g.find_op("q")).forward = OpId(0); }),
            "graph g: op q: is part of a gradient, but its phase is forward");
}

TEST(Verify, FindsWrongGradientsAndVersions) {
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("w2")).version_of = {}; }),
            "graph g: op s: output 'w2' is not marked as the new version of 'w'");
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("b")).version_of = g.find_value("w"); }),
            "graph g: value b: is marked as a new version, but no op replaces anything with it");
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("b")).partial = true; }),
            "graph g: value b: is marked as a part of a gradient, but not of which value");
  EXPECT_EQ(refusal([](Graph& g) { g.value(g.find_value("b")).gradient_of = g.find_value("lr"); }),
            "graph g: value b: is f32[4], but the gradient of 'lr', which is f32[1]");
}

TEST(Verify, ReaderAfterTheUpdateIsTheUsersMistake) {
  const auto refused = [](std::string_view text) { return message_of<UserError>([&] { verify_graph(graph_of(text)); }); };
  EXPECT_EQ(refused(R"(
input lr f32[1]
input d f32[4]
param w f32[4]
s: w2 = sgd(w, d, lr)
late: y = relu(w)
output y
)"),
            "op late (relu): 'w' is used twice in place: op s has already replaced it; use 'w2', or move this op before it");
  EXPECT_EQ(refused(R"(
input lr f32[1]
input d f32[4]
param w f32[4]
s: w2 = sgd(w, d, lr)
t: w3 = sgd(w2, d, lr)
output w3
)"),
            "op t (sgd): 'w' is used twice in place: 'w2' is already the new version of 'w'");
  EXPECT_EQ(refused(R"(
input lr f32[1]
input d f32[4]
param w f32[4]
s: w2 = sgd(w, d, lr)
output w
)"),
            "output 'w' is used twice in place: op s has replaced it; use 'w2'");
}

TEST(Verify, NewVersionMayBeRead) {
  EXPECT_NO_THROW(verify_graph(graph_of(R"(
input lr f32[1]
input d f32[4]
param w f32[4]
s: w2 = sgd(w, d, lr)
late: y = relu(w2)
output y
)")));
}

}  // namespace
}  // namespace outsize
