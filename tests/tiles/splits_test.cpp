// Splits beyond samples and space: weights and optimizer states, output and input channels, tokens, heads. A step that is split by
// hand trains as whole values do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../step_runs.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "plan/planner.h"

namespace outsize {
namespace {

using testing::HasSubstr;

constexpr const char* kDense = R"(
graph dense
input x f64[6, 10]
input labels i32[6]
param fc1.weight f64[12, 10] init=normal:0.4
param fc1.bias f64[12] init=normal:0.1
param fc2.weight f64[12, 4] init=normal:0.4
fc1: h = linear(x, fc1.weight, fc1.bias)
act: a = relu(h)
fc2: z = linear(a, fc2.weight) weight=io
loss: loss = softmax_cross_entropy(z, labels)
output loss
)";

// Blocks of channels are 16 wide on the CPU.
constexpr const char* kMaps = R"(
graph maps
input x f64[2, 32, 7, 5]
input labels i32[2]
param conv1.weight f64[48, 32, 3, 3] init=normal:0.06
param conv1.bias f64[48] init=normal:0.1
param conv2.weight f64[32, 48, 3, 3] init=normal:0.06
param conv3.weight f64[64, 16, 3, 3] init=normal:0.08
param bn.weight f64[64] init=ones
param bn.bias f64[64] init=normal:0.1
state bn.running_mean f64[64] init=zeros
state bn.running_var f64[64] init=ones
param fc.weight f64[4, 64] init=normal:0.3
conv1: y = conv2d(x, conv1.weight, conv1.bias) padding=[1, 1, 1, 1]
act: a = sigmoid(y)
conv2: z = conv2d(a, conv2.weight) padding=[1, 1, 1, 1] stride=[2, 2]
conv3: g = conv2d(z, conv3.weight) padding=[1, 1, 1, 1] groups=2
bn.stats: stats = batch_norm_stats(g)
bn.finalize: moments = batch_norm_finalize(stats)
bn.update: mean.next, var.next = batch_norm_update(bn.running_mean, bn.running_var, stats)
bn.apply: n = batch_norm_apply(g, moments, bn.weight, bn.bias)
gap: p = adaptive_avg_pool(n) output=[1, 1]
flat: f = reshape(p) shape=[2, 64]
fc: logits = linear(f, fc.weight)
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)";

// Parts of a map of unequal channels, one of them with a layer of its own.
constexpr const char* kParts = R"(
graph parts
input x f64[2, 3, 6, 5]
input target f64[2, 5, 6, 5]
param conv1.weight f64[4, 3, 3, 3] init=normal:0.3
param conv2.weight f64[2, 1, 3, 3] init=normal:0.3
conv1: y = conv2d(x, conv1.weight) padding=[1, 1, 1, 1]
part: a, b = split(y) sizes=[1, 3]
conv2: c = conv2d(a, conv2.weight) padding=[1, 1, 1, 1]
join: z = concat(b, c)
loss: loss = mean_squared_error(z, target)
output loss
)";

// A map of one position, normed with its channels last.
constexpr const char* kPosition = R"(
graph position
input x f64[2, 3, 2, 2]
input target f64[2, 2, 1, 1]
param conv1.weight f64[4, 3, 3, 3] init=normal:0.3
param norm.weight f64[4] init=ones
param norm.bias f64[4] init=normal:0.1
param conv2.weight f64[2, 4, 1, 1] init=normal:0.5
conv1: y = conv2d(x, conv1.weight) stride=[3, 3] padding=[1, 1, 1, 1]
last: l = permute(y) order=[0, 2, 3, 1]
norm: n = layer_norm(l, norm.weight, norm.bias)
first: f = permute(n) order=[0, 3, 1, 2] format=map
conv2: z = conv2d(f, conv2.weight)
loss: loss = mean_squared_error(z, target)
output loss
)";

// A map of normed pixels.
constexpr const char* kTurned = R"(
graph turned
input x f64[3, 2, 6, 4]
input target f64[3, 4, 2, 6]
param norm.weight f64[4] init=ones
param norm.bias f64[4] init=normal:0.1
param conv.weight f64[4, 4, 1, 1] init=normal:0.5
last: l = reshape(x) shape=[3, 2, 6, 4] format=plain
norm: n = layer_norm(l, norm.weight, norm.bias)
turn: t = permute(n) order=[0, 3, 1, 2] format=map
conv: z = conv2d(t, conv.weight)
loss: loss = mean_squared_error(z, target)
output loss
)";

// One block of a decoder, with dropout of its weights, and a head that has the weights of the embedding.
constexpr const char* kTokens = R"(
graph tokens
input x i32[2, 8]
input labels i32[2, 8]
input random_key i32[4]
param words f64[11, 12] init=normal:0.5
param ln1.weight f64[12] init=ones
param ln1.bias f64[12] init=normal:0.1
param q.weight f64[12, 12] init=normal:0.4
param k.weight f64[12, 12] init=normal:0.4
param v.weight f64[12, 12] init=normal:0.4
param v.bias f64[12] init=normal:0.1
param proj.weight f64[12, 12] init=normal:0.4
param up.weight f64[12, 24] init=normal:0.4
param up.bias f64[24] init=normal:0.1
param down.weight f64[24, 12] init=normal:0.4
param ln2.weight f64[12] init=ones
param ln2.bias f64[12] init=normal:0.1
embed: e = embedding(x, words)
ln1: n = layer_norm(e, ln1.weight, ln1.bias)
q: q = linear(n, q.weight)
k: k = linear(n, k.weight)
v: v = linear(n, v.weight, v.bias)
attn: s = attention(q, k, v, random_key) heads=3 causal=1 p=0.25
proj: o = linear(s, proj.weight)
add: r = add(o, e)
up: u = linear(r, up.weight, up.bias) weight=io
act: t = gelu(u)
down: d = linear(t, down.weight) weight=io
ln2: l = layer_norm(d, ln2.weight, ln2.bias)
head: logits = linear(l, words)
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)";

std::string in_f32(std::string text) {
  for (std::size_t at = text.find("f64"); at != std::string::npos; at = text.find("f64", at)) text.replace(at, 3, "f32");
  return text;
}

StepGraph training_of(std::string text, const TrainingOptions& options) {
  register_ops();
  return make_training_graph(parse_graph(text, "split"), options);
}

struct Split {
  const char* name;
  const char* graph;
  const char* plan;
  Optimizer optimizer = Optimizer::sgd;
  bool gradients = true;  // can be read after the step, so that a gradient outlives the pass that makes it

  friend std::ostream& operator<<(std::ostream& out, const Split& split) { return out << split.name; }
};

const Split kSplits[] = {
    // weights and states
    {"update_on_device", kDense, R"(
until fc1.weight.sgd
pass u.w driver=fc1.weight.next grid=[3, 2] ops=[fc1.weight.sgd]
pass u.b driver=fc1.bias.next grid=[4] ops=[fc1.bias.sgd]
rest
)"},
    {"update_streamed", kDense, R"(
stream fc1.weight host
stream fc1.weight.momentum disk
stream fc1.grad_weight host
pass f.1 driver=h grid=[1, 4] ops=[fc1]
until fc1.grad_data
pass b.1 driver=act.grad grid=[1, 4] ops=[fc1.grad_data]
pass b.2 driver=fc1.grad_weight grid=[3, 2] ops=[fc1.grad_weight]
pass u.w driver=fc1.weight.next cuts.0=[5, 7] ops=[fc1.weight.sgd]
rest
)"},
    {"update_with_its_gradient", kDense, R"(
stream fc1.weight disk
stream fc1.weight.adam_m host
stream fc1.weight.adam_v host
stream fc2.weight host
stream fc2.weight.adam_m host
stream fc2.weight.adam_v host
pass f.1 driver=h grid=[1, 3] ops=[fc1]
run act
pass f.2 driver=z grid=[3, 2] ops=[fc2]
until fc2.grad_data
pass b.2 driver=fc2.grad_data grid=[1, 3] ops=[fc2.grad_data]
pass u.2 driver=fc2.weight.next grid=[6, 1] ops=[fc2.grad_weight, fc2.weight.adam]
until fc1.grad_weight
pass u.1 driver=fc1.weight.next grid=[4, 1] ops=[fc1.grad_weight, fc1.weight.adam]
rest
)",
     Optimizer::adam, false},
    {"update_of_a_gradient_summed_on_the_host", kDense, R"(
stream fc1.weight host
stream fc1.weight.momentum host
stream fc1.grad_weight host
pass f.1 driver=h grid=[2, 4] ops=[fc1]
until fc1.grad_data
pass b.1 driver=act.grad grid=[3, 2] ops=[fc1.grad_data, fc1.grad_weight]
pass u.w driver=fc1.weight.next grid=[3, 1] ops=[fc1.weight.sgd]
rest
)"},

    // output and input channels of linear layers
    {"linear_input_channels", kDense, R"(
stream x host
stream fc1.weight host
pass f.1 driver=x grid=[1, 5] ops=[fc1]
run act
pass f.2 driver=a grid=[2, 3] ops=[fc2]
until fc2.grad_data
pass b.2 driver=loss.grad grid=[1, 2] ops=[fc2.grad_data, fc2.grad_weight]
until fc1.grad_data
pass b.1 driver=fc1.grad_data grid=[2, 3] ops=[fc1.grad_data]
pass w.1 driver=fc1.grad_weight grid=[1, 5] ops=[fc1.grad_weight]
pass u.1 driver=fc1.weight.next grid=[1, 2] ops=[fc1.weight.sgd]
rest
)"},
    {"linear_output_channels", kDense, R"(
pass f.1 driver=a grid=[2, 4] ops=[fc1, act]
until act.grad
pass b.1 driver=act.grad grid=[1, 3] ops=[act.grad, fc1.grad_data, fc1.grad_weight]
rest
)"},

    // … of convolutions
    {"conv_output_channels", kMaps, R"(
stream conv1.weight host
stream conv1.weight.momentum host
stream conv1.grad_weight host
pass f.1 driver=a grid=[1, 3, 1, 1] ops=[conv1, act]
pass f.2 driver=z grid=[2, 2, 2, 1] ops=[conv2]
pass f.3 driver=g grid=[1, 2, 1, 1] ops=[conv3, bn.stats]
until conv3.grad_data
pass b.3 driver=bn.apply.grad_apply grid=[1, 4, 1, 1] ops=[conv3.grad_data, conv3.grad_weight]
pass b.2 driver=conv3.grad_data grid=[1, 2, 1, 1] ops=[conv2.grad_data, conv2.grad_weight]
pass b.1 driver=act.grad grid=[1, 3, 1, 1] ops=[act.grad, conv1.grad_data]
pass w.1 driver=conv1.grad_weight grid=[3, 1, 1, 1] ops=[conv1.grad_weight]
pass u.1 driver=conv1.weight.next grid=[6, 1, 1, 1] ops=[conv1.weight.sgd]
rest
)"},
    {"conv_input_channels", kMaps, R"(
stream x host
stream conv1.weight host
stream conv1.weight.momentum host
pass f.1 driver=x grid=[1, 2, 1, 1] ops=[conv1]
run act
pass f.2 driver=a grid=[2, 3, 2, 2] ops=[conv2]
pass f.3 driver=z grid=[1, 2, 1, 1] ops=[conv3]
until conv3.grad_data
pass b.3 driver=conv3.grad_data grid=[1, 2, 1, 1] ops=[conv3.grad_data]
pass b.2 driver=conv2.grad_data grid=[1, 3, 1, 1] ops=[conv2.grad_data]
pass w.2 driver=conv2.grad_weight grid=[2, 3, 1, 1] ops=[conv2.grad_weight]
until conv1.grad_data
pass b.1 driver=conv1.grad_data grid=[1, 2, 2, 1] ops=[conv1.grad_data]
pass u.1 driver=conv1.weight.next grid=[1, 2, 1, 1] ops=[conv1.grad_weight, conv1.weight.sgd]
rest
)"},

    // gradients of parts, pushed from rows
    {"parts_of_channels", kParts, R"(
until join.grad
pass b.1 driver=loss.grad grid=[2, 1, 3, 1] ops=[join.grad, conv2.grad_data, conv2.grad_weight, part.grad, conv1.grad_data, conv1.grad_weight]
rest
)"},

    // gradients of parts of which several tiles have a share, and whose rows are carried besides
    {"channels_and_carried_rows", kMaps, R"(
until conv3.grad_data
pass b.3 driver=bn.apply.grad_apply grid=[1, 4, 2, 1] order=down share=[z] ops=[conv3.grad_data, conv3.grad_weight]
rest
)"},

    // one position, with its channels last
    {"one_position", kPosition, R"(
pass f.1 driver=z grid=[2, 1, 1, 1] ops=[conv1, last, norm, first, conv2]
rest
)"},

    // tokens
    {"tokens", kTokens, R"(
pass f.1 driver=n grid=[1, 4, 1] ops=[embed, ln1]
pass f.k driver=k grid=[2, 2, 1] ops=[k]
run v
pass f.2 driver=l grid=[1, 3, 1] ops=[q, attn, proj, add, up, act, down, ln2]
until ln2.grad
pass b.1 driver=head.grad_data grid=[2, 4, 1] ops=[ln2.grad, ln2.grad_params, down.grad_data, down.grad_weight, act.grad, up.grad_data, up.grad_weight]
pass b.2 driver=up.grad_data grid=[1, 4, 1] ops=[proj.grad_data, proj.grad_weight, attn.grad]
rest
)"},
    {"tokens_to_keys", kTokens, R"(
until proj.grad_data
pass b.1 driver=up.grad_data grid=[1, 3, 1] ops=[proj.grad_data, attn.grad, k.grad_data, k.grad_weight, v.grad_data, v.grad_weight, q.grad_weight]
rest
)"},
    // the tile that has nothing of the norm's result has its moments, which the next op reads
    {"moments_of_cut_features", kTokens, R"(
until head.grad_data
pass b.1 driver=head.grad_data cuts.2=[1] ops=[ln2, head.grad_data, head.grad_weight]
rest
)"},
    {"heads", kTokens, R"(
until q
pass f.1 driver=s grid=[1, 1, 3] ops=[q, k, v, attn]
until attn.grad
pass b.1 driver=attn.grad grid=[1, 1, 3] ops=[attn.grad]
rest
)"},
    {"heads_to_their_weights", kTokens, R"(
until q
pass f.1 driver=s cuts.0=[1] cuts.2=[4] ops=[q, k, v, attn]
until attn.grad
pass b.1 driver=proj.grad_data cuts.2=[4, 8] ops=[attn.grad, q.grad_data, q.grad_weight, k.grad_weight, v.grad_data, v.grad_weight]
rest
)"},
    {"hidden_channels", kTokens, R"(
until up
pass f.1 driver=t grid=[1, 2, 3] ops=[up, act]
pass f.2 driver=t grid=[1, 1, 4] ops=[down]
until down.grad_data
pass b.1 driver=act.grad grid=[2, 1, 4] ops=[down.grad_data, act.grad, up.grad_data, up.grad_weight]
rest
)"},
    {"loss_by_tokens", kTokens, R"(
until head
pass h driver=logits grid=[2, 4, 1] ops=[head, loss, loss.grad, head.grad_data, head.grad_weight]
rest
)"},
    {"loss_by_tokens_with_norm", kTokens, R"(
stream d host
until down
pass f driver=d grid=[2, 1, 1] ops=[down]
pass h driver=logits grid=[1, 3, 1] ops=[ln2, head, loss, loss.grad, head.grad_data, head.grad_weight, ln2.grad, ln2.grad_params]
rest
)"},
};

class Splits : public testing::TestWithParam<std::tuple<Split, bool>> {};

TEST_P(Splits, TrainAsWholeValuesDo) {
  const auto& [split, on_cpu] = GetParam();
  TrainingOptions options{.optimizer = split.optimizer};
  options.gradients = split.gradients;
  const StepGraph training = training_of(on_cpu ? in_f32(split.graph) : split.graph, options);
  const Graph& graph = training.graph;
  const std::unique_ptr<Backend> backend = make_backend(on_cpu ? "cpu" : "reference", 2);
  const Profile profile{find_device("cpu"), {}};
  const Outcome kept =
      train(training, find_planner("keep").make({graph, profile, backend->storage()}).take(), *backend, true, 0, 2);
  const Plan plan = parse_plan(graph, split.plan, split.name);
  for (const bool loops : {true, false}) {
    const Outcome found = train(training, plan, *backend, loops, 256, 2);
    expect_close(graph, found, kept, on_cpu ? 1e-4 : 1e-9);
    for (const Piece& piece : found.program.pieces) {  // what is streamed is never whole on the device
      if (piece.tier != Tier::device || !piece.value || home_of(graph, plan, piece.value) == Tier::device) continue;
      EXPECT_LT(piece.bytes, stored_bytes(backend->storage(), type_of(graph, piece), type_of(graph, piece).shape))
          << label_of(graph, piece);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ByHand, Splits, testing::Combine(testing::ValuesIn(kSplits), testing::Bool()), [](const auto& test) {
  return std::string(std::get<0>(test.param).name) + (std::get<1>(test.param) ? "_cpu" : "");
});

// Neither the logits nor their gradient are ever whole.
TEST(Splits, LogitsAreNeverWhole) {
  const StepGraph training = training_of(kTokens, {});
  const Graph& graph = training.graph;
  const Plan plan = parse_plan(graph,
                               "until head\npass h driver=logits grid=[2, 4, 1] ops=[head, loss, loss.grad, head.grad_data, "
                               "head.grad_weight]\nrest\n",
                               "test.plan");
  const Program program = lower(graph, plan, {}).take();
  int seen = 0;
  for (const Piece& piece : program.pieces)
    if (piece.value == graph.find_value("logits") || piece.value == graph.find_value("loss.grad")) {
      EXPECT_EQ(piece.bytes, 2 * 11 * 8) << label_of(graph, piece);  // two of the sixteen tokens
      ++seen;
    }
  EXPECT_GE(seen, 2);
}

// What a tile would count twice is refused.
TEST(Splits, RefuseWhatCannotBeSplit) {
  const auto message = [](const char* text, const std::string& plan, const char* backend) -> std::string {
    const StepGraph training = training_of(text, {});
    LowerOptions options;
    options.storage = make_backend(backend, 1)->storage();
    try {
      lower(training.graph, parse_plan(training.graph, plan, "test.plan"), options).take();
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(message(kTokens, "until head\npass h driver=logits grid=[1, 1, 2] ops=[head, loss]\nrest\n", "reference"),
              HasSubstr("op loss takes logits whole along dimension 2, which a cut of logits along dimension 2 cuts"));
  EXPECT_THAT(message(kTokens, "until ln2.grad_params\npass b driver=head.grad_data grid=[1, 1, 2] ops=[ln2.grad_params]\nrest\n",
                      "reference"),
              HasSubstr("op ln2.grad_params takes head.grad_data whole along dimension 2"));
  EXPECT_THAT(message(kTokens, "until attn.grad\npass b driver=proj.grad_data grid=[1, 1, 4] ops=[attn.grad]\nrest\n", "reference"),
              HasSubstr("op attn.grad takes proj.grad_data whole along dimension 2"));
  EXPECT_THAT(
      message(kDense, "until fc2.weight.sgd\npass u driver=loss.grad grid=[1, 2] ops=[fc2.grad_weight, fc2.weight.sgd]\nrest\n",
              "reference"),
      HasSubstr("op fc2.weight.sgd reads fc2.grad_weight, which is complete only after the pass"));
  EXPECT_THAT(message(kDense,
                      "until fc2.grad_data\npass u driver=fc2.weight.next grid=[2, 1] ops=[fc2.grad_data, fc2.grad_weight, "
                      "fc2.weight.sgd]\nrest\n",
                      "reference"),
              HasSubstr("op fc2.weight.sgd changes fc2.weight in one tile, and another reads or changes the same of it"));
  EXPECT_THAT(message(kTokens,
                      "until v.grad_data\nrun k.grad_data\npass b driver=attn.grad.v grid=[1, 1, 3] ops=[v.grad_data, "
                      "grad.n.sum]\nrest\n",
                      "reference"),
              HasSubstr("op grad.n.sum would add k.grad_data in several tiles"));
  EXPECT_THAT(
      message(kTurned, "until turn.grad\npass b driver=conv.grad_data grid=[1, 2, 1, 1] gradients=gather ops=[turn.grad]\nrest\n",
              "reference"),
      HasSubstr("op turn.grad takes conv.grad_data whole along dimension 1"));
  EXPECT_THAT(message(kMaps, "until conv1\npass f driver=y grid=[1, 2, 1, 1] ops=[conv1]\nrest\n", "cpu"),
              HasSubstr("it would cut the channels of y at 24, but they are stored in blocks of 16"));
}

}  // namespace
}  // namespace outsize
