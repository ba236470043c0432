#include <map>
#include <optional>

#include "ops/conv/cuda_convolution.h"
#include "ops/conv/cuda_depthwise.h"
#include "ops/conv/cuda_library.h"
#include "ops/conv/cuda_stem.h"
#include "ops/conv/shape.h"
#include "ops/cuda/library/trial.h"
#include "ops/cuda/library/tuned.h"
#include "ops/cuda/reduce.h"
#if defined(__CUDACC__)
#include "ops/cuda/library/cudnn.h"
#endif

namespace outsize::OUTSIZE_PLACE {
namespace {

// What is done to a result that the library has left: a number a channel is added, and what is below zero becomes zero. A NaN
// stays.
template <bool kRelu>
struct Finish {
  static constexpr int kInputs = 1;
  struct Factors {
    float bias;
  };
  const float* bias;  // null: none
  OUTSIZE_BOTH Factors factors(int channel) const { return {bias ? bias[channel] : 0.0f}; }
  OUTSIZE_BOTH float operator()(const float* x, const Factors& factors) const {
    const float y = x[0] + factors.bias;
    return kRelu && y < 0 ? 0.0f : y;
  }
};

void finish(float* map, const Box& box, const float* bias, bool relu, void* queue) {
  const Sheet sheet{box.elements() / box.extent(1), box.extent(1)};
  if (relu)
    run_map(Finish<true>{bias}, {map}, map, sheet, queue);
  else if (bias)
    run_map(Finish<false>{bias}, {map}, map, sheet, queue);
}

// The sum of each channel.
struct Sum {
  static constexpr int kInputs = 1;
  using Factors = NoFactors;
  struct Partial {
    double total = 0;
    OUTSIZE_BOTH void merge(const Partial& other) { total += other.total; }
  };
  struct Run {
    float total;
    OUTSIZE_BOTH void start(float) { total = 0; }
    OUTSIZE_BOTH void add(const float* x, NoFactors) { total += x[0]; }
    OUTSIZE_BOTH void into(Partial& partial, int) const { partial.total += total; }
  };
  OUTSIZE_BOTH NoFactors factors(int) const { return {}; }
};

struct SumEnd {
  float* sums;
  OUTSIZE_BOTH void finish(int channel, const Sum::Partial& partial) const { sums[channel] = static_cast<float>(partial.total); }
};

ReduceShape sum_shape(const Box& map) { return {1, {map.elements() / map.extent(1), map.extent(1)}, 1}; }

SlidingWindows windows_of(const OpSite& site, const Dims& weight, const Dims& x) {
  return sliding_windows(site, spatial(weight), spatial(x), true);
}
Geometry geometry_of(const OpSite& site, ConvolutionPass pass, const Dims& weight, const Dims& x) {
  return {pass, windows_of(site, weight, x), channels_of(site, weight)};
}

// Whether a call is not for the library but for the block programs; `weight` and `x` are whole shapes.
bool is_depthwise(const Call& call, const Dims& weight, const Dims& x) {
  std::int64_t positions = 0;
  for (const Box& box : {call.boxes.in[0], call.boxes.out[0], call.boxes.in[1]})
    if (box.rank() == x.rank()) positions = std::max(positions, box.elements() / std::max<std::int64_t>(1, box.extent(1)));
  return has_depthwise(windows_of(call.site, weight, x), channels_of(call.site, weight), positions);
}

// Nothing but the bias: no input reaches the result.
std::unique_ptr<Kernel> make_bias_alone(const Box& box, bool bias, bool relu) {
  return make_kernel("fill", 0, [=](const KernelRun& run) {
    fill_zero(run.out[0], box.elements() * 4, run.queue);
    finish(out<float>(run, 0), box, bias ? in<float>(run, 2) : nullptr, relu, run.queue);
  });
}

LibraryConvolution forward_of(const Call& call) {
  return {geometry_of(call.site, ConvolutionPass::forward, call.site.in(1).shape, call.site.in(0).shape),
          {call.boxes.in[0], call.boxes.out[0], call.boxes.in[1]}};
}
LibraryConvolution spread_of(const Call& call) {
  return {geometry_of(call.site, ConvolutionPass::data, call.site.in(1).shape, call.site.out(0).shape),
          {call.boxes.out[0], call.boxes.in[0], call.boxes.in[1]}};
}
LibraryConvolution weights_of(const Call& call) {
  return {geometry_of(call.site, ConvolutionPass::weights, call.site.out(0).shape, call.site.in(1).shape),
          {call.boxes.in[1], call.boxes.in[0], call.boxes.out[0]}};
}

bool has_bias(const Call& call) { return call.site.inputs() > 2 && !call.boxes.in[2].empty(); }

// The kernels of planned convolutions.
std::unique_ptr<Kernel> forward_kernel(const Call& call, const LibraryConvolution& convolution) {
  const bool bias = has_bias(call), relu = call.site.word("activation") == "relu";
  return make_kernel(convolution.name(), convolution.workspace_bytes(), [=](const KernelRun& run) {
    const Box& box = run.out_boxes[0];
    const float* const numbers = bias ? in<float>(run, 2) : nullptr;
    float* const result = out<float>(run, 0);
    convolution.run({run.in_boxes[0], box}, const_cast<float*>(in<float>(run, 0)), const_cast<float*>(in<float>(run, 1)), result,
                    numbers, run.workspace, run.queue);
    if (!convolution.fuses_relu()) finish(result, box, convolution.fuses_bias() ? nullptr : numbers, relu, run.queue);
  });
}

std::unique_ptr<Kernel> spread_kernel(const Call& call, const LibraryConvolution& convolution) {
  const bool bias = has_bias(call);
  return make_kernel(convolution.name(), convolution.workspace_bytes(), [=](const KernelRun& run) {
    const Box& box = run.out_boxes[0];
    float* const result = out<float>(run, 0);
    convolution.run({box, run.in_boxes[0]}, result, const_cast<float*>(in<float>(run, 1)), const_cast<float*>(in<float>(run, 0)),
                    nullptr, run.workspace, run.queue);
    finish(result, box, bias ? in<float>(run, 2) : nullptr, false, run.queue);
  });
}

std::unique_ptr<Kernel> weights_kernel(const Call& call, const LibraryConvolution& convolution) {
  const bool bias = call.site.outputs() > 1;
  const ReduceShape shape = sum_shape(call.boxes.in[0]);
  const std::int64_t workspace =
      std::max(convolution.workspace_bytes(), convolution.shared_at() + (bias ? reduce_workspace<Sum>(shape) : 0));
  return make_kernel(convolution.name(), workspace, [=](const KernelRun& run) {
    convolution.run({run.in_boxes[1], run.in_boxes[0]}, const_cast<float*>(in<float>(run, 1)), out<float>(run, 0),
                    const_cast<float*>(in<float>(run, 0)), nullptr, run.workspace, run.queue);
    if (bias)
      run_reduce(Sum(), SumEnd{out<float>(run, 1)}, {in<float>(run, 0)}, shape, run.workspace + convolution.shared_at(), run.queue);
  });
}

std::unique_ptr<Kernel> make_library_forward(const Call& call, bool tf32) {
  LibraryConvolution convolution = forward_of(call);
  convolution.plan(call.site, has_bias(call), call.site.word("activation") == "relu", tf32);
  return forward_kernel(call, convolution);
}

std::unique_ptr<Kernel> make_library_spread(const Call& call, bool tf32) {
  LibraryConvolution convolution = spread_of(call);
  convolution.plan(call.site, false, false, tf32);
  return spread_kernel(call, convolution);
}

std::unique_ptr<Kernel> make_library_weights(const Call& call, bool tf32) {
  LibraryConvolution convolution = weights_of(call);
  convolution.plan(call.site, false, false, tf32);
  return weights_kernel(call, convolution);
}

// Of a block program and what make_library(call, tf32) gives the one that is faster on the card, in memory that is given back at
// once; the block program where there is none, or no card, or the library has no plan. `choice` may ask for either.
std::unique_ptr<Kernel> faster_of(std::unique_ptr<Kernel> own, const Call& call, [[maybe_unused]] const StorageRule& storage,
                                  bool tf32, std::unique_ptr<Kernel> (*make_library)(const Call&, bool), ConvolutionChoice choice) {
#if !defined(__CUDACC__)
  if (choice == ConvolutionChoice::fastest) return own;
#endif
  if (choice == ConvolutionChoice::own) return own;
  std::unique_ptr<Kernel> library;
  try {
    library = make_library(call, tf32);
  } catch (const UserError&) {
    return own;
  }
  if (choice == ConvolutionChoice::library) return library;
#if defined(__CUDACC__)
  std::int64_t bytes = 0;
  const auto book = [&](const ValueType& type, const Box& box) {
    const std::int64_t at = bytes;
    if (!box.empty()) bytes += part_bytes(stored_bytes(storage, type, box.shape()));
    return at;
  };
  std::vector<std::int64_t> in_at, out_at;
  for (std::size_t i = 0; i < call.boxes.in.size(); ++i) in_at.push_back(book(call.site.in(static_cast<int>(i)), call.boxes.in[i]));
  for (std::size_t i = 0; i < call.boxes.out.size(); ++i)
    out_at.push_back(book(call.site.out(static_cast<int>(i)), call.boxes.out[i]));
  std::string text = std::string(call.site.op.def->kind());
  for (const ConvolutionSignature& signature : convolution_signatures(call, tf32)) text += "; " + to_string(sample_of(signature));
  const std::string own_way = "own " + own->name(), library_way = "library " + library->name();
  const bool known = tuned_seconds(text, own_way) && tuned_seconds(text, library_way);
  const std::unique_ptr<Trial> trial =
      known ? nullptr : Trial::make(bytes + std::max(own->workspace_bytes(), library->workspace_bytes()));
  if (!known && !trial) return own;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const std::int64_t at : in_at) in.push_back(trial ? trial->memory() + at : nullptr);
  for (const std::int64_t at : out_at) out.push_back(trial ? trial->memory() + at : nullptr);
  const auto seconds = [&](const Kernel& kernel, const std::string& way, double best) {
    return tuned_seconds(text, way, [&] {
      const auto run = [&] {
        kernel.run({in, out, trial->memory() + bytes, call.boxes.in, call.boxes.out, call.owned, trial->queue()});
        return true;
      };
      return trial->seconds(run, best).value_or(INFINITY);
    });
  };
  constexpr double kFaster = 0.95;  // so that chance decides nothing
  const double without = seconds(*own, own_way, INFINITY), with = seconds(*library, library_way, without);
  if (trial) use_stream(nullptr);
  if (with < kFaster * without) return library;
#endif
  return own;
}

}  // namespace

namespace {

// A call of any of these kinds as the library does it; nothing where there is nothing to do, or block programs serve.
std::optional<LibraryConvolution> library_convolution(const Call& call) {
  const std::string_view kind = call.site.op.def->kind();
  const auto empty = [](const Box& box) { return box.empty(); };
  if (std::ranges::any_of(std::span(call.boxes.in).first(2), empty) || call.boxes.out[0].empty()) return std::nullopt;
  const bool weights = kind.ends_with("_grad_weight"), spread = kind.ends_with("_grad_data") || kind.starts_with("conv_transpose");
  const OpSite& site = call.site;
  if (is_depthwise(call, weights ? site.out(0).shape : site.in(1).shape,
                   weights  ? site.in(1).shape
                   : spread ? site.out(0).shape
                            : site.in(0).shape))
    return std::nullopt;
  return weights ? weights_of(call) : spread ? spread_of(call) : forward_of(call);
}

}  // namespace

std::vector<ConvolutionSignature> convolution_signatures(const Call& call, bool tf32) {
  const std::optional<LibraryConvolution> convolution = library_convolution(call);
  return convolution ? convolution->signatures(false, false, tf32) : std::vector<ConvolutionSignature>{};
}

#if defined(__CUDACC__)
std::optional<Alternative> described_convolution(const Call& call, bool tf32, const std::string& description) {
  if (!call.site.op.def->kind().starts_with("conv")) return std::nullopt;
  const std::optional<LibraryConvolution> convolution = library_convolution(call);
  if (!convolution) return std::nullopt;
  constexpr int kFew = 10;  // as many as are tried on a card
  // Never destroyed: the library may have ended before.
  static auto& known = *new std::map<std::string, std::optional<PlannedConvolution>>();
  Alternative found;
  for (const ConvolutionSignature& signature : convolution->signatures(false, false, tf32)) {
    const auto [at, is_new] = known.try_emplace(description + to_string(signature));
    if (is_new) {
      const std::int64_t most = workspace_limit(signature);
      for (const PlannedConvolution& plan : planned_convolutions(signature, description, kFew)) {
        const bool fits = plan.workspace_bytes <= most, had = at->second && at->second->workspace_bytes <= most;
        if (!had && (fits || !at->second || plan.workspace_bytes < at->second->workspace_bytes)) at->second = plan;
      }
    }
    if (!at->second) return std::nullopt;
    if (found.name.empty()) found.name = at->second->name;
    found.workspace_bytes = std::max(found.workspace_bytes, at->second->workspace_bytes);
  }
  found.workspace_bytes += convolution->shared_at();
  return found;
}
#endif

ConvolutionChoice& convolution_choice() {
  static ConvolutionChoice choice = ConvolutionChoice::fastest;
  return choice;
}

std::unique_ptr<Kernel> make_convolution(const Call& call, const StorageRule& storage, bool tf32, ConvolutionChoice choice) {
  expect_card_call(call, storage);
  const Box& y = call.boxes.out[0];
  if (y.empty()) return make_nothing();
  const bool bias = has_bias(call), relu = call.site.word("activation") == "relu";
  if (call.boxes.in[0].empty() || call.boxes.in[1].empty()) return make_bias_alone(y, bias, relu);
  if (!is_depthwise(call, call.site.in(1).shape, call.site.in(0).shape)) return make_library_forward(call, tf32);
  const SlidingWindows windows = windows_of(call.site, call.site.in(1).shape, call.site.in(0).shape);
  auto own = make_kernel("depthwise", 0, [=](const KernelRun& run) {
    run_depthwise(windows,
                  {in<float>(run, 0), run.in_boxes[0], in<float>(run, 1), out<float>(run, 0), run.out_boxes[0],
                   bias ? in<float>(run, 2) : nullptr, relu},
                  false, run.queue);
  });
  return faster_of(std::move(own), call, storage, tf32, make_library_forward, choice);
}

std::unique_ptr<Kernel> make_spread(const Call& call, const StorageRule& storage, bool tf32, ConvolutionChoice choice) {
  expect_card_call(call, storage);
  const Box& x = call.boxes.out[0];
  if (x.empty()) return make_nothing();
  const bool bias = has_bias(call);
  if (call.boxes.in[0].empty() || call.boxes.in[1].empty()) return make_bias_alone(x, bias, false);
  if (!is_depthwise(call, call.site.in(1).shape, call.site.out(0).shape)) return make_library_spread(call, tf32);
  const SlidingWindows windows = windows_of(call.site, call.site.in(1).shape, call.site.out(0).shape);
  auto own = make_kernel("depthwise", 0, [=](const KernelRun& run) {
    run_depthwise(windows,
                  {in<float>(run, 0), run.in_boxes[0], in<float>(run, 1), out<float>(run, 0), run.out_boxes[0],
                   bias ? in<float>(run, 2) : nullptr},
                  true, run.queue);
  });
  return faster_of(std::move(own), call, storage, tf32, make_library_spread, choice);
}

std::unique_ptr<Kernel> make_convolution_weights(const Call& call, const StorageRule& storage, bool tf32,
                                                 ConvolutionChoice choice) {
  expect_card_call(call, storage);
  const Box& y = call.boxes.in[0];
  const Box& x = call.boxes.in[1];
  if (y.empty() || x.empty()) return make_zeros(call, storage);
  if (call.boxes.out[0].empty()) return make_nothing();
  const bool bias = call.site.outputs() > 1;
  const ReduceShape shape = sum_shape(y);
  const std::int64_t bias_workspace = bias ? reduce_workspace<Sum>(shape) : 0;
  const SlidingWindows windows = windows_of(call.site, call.site.out(0).shape, call.site.in(1).shape);
  const auto make_own = [&](const char* name, std::int64_t workspace, const auto& run_weights) {
    return make_kernel(name, std::max(workspace, bias_workspace), [=](const KernelRun& run) {
      run_weights(windows, in<float>(run, 0), run.in_boxes[0], in<float>(run, 1), run.in_boxes[1], out<float>(run, 0),
                  run.workspace, run.queue);
      if (bias) run_reduce(Sum(), SumEnd{out<float>(run, 1)}, {in<float>(run, 0)}, shape, run.workspace, run.queue);
    });
  };
  if (is_depthwise(call, call.site.out(0).shape, call.site.in(1).shape))
    return faster_of(make_own("depthwise", depthwise_weights_workspace(windows, y), run_depthwise_weights), call, storage, tf32,
                     make_library_weights, choice);
  if (has_stem_weights(windows, channels_of(call.site, call.site.out(0).shape), y, x))
    return faster_of(make_own("unfold", stem_weights_workspace(windows, y, x), run_stem_weights), call, storage, tf32,
                     make_library_weights, choice);
  return make_library_weights(call, tf32);
}

namespace {

using Make = std::unique_ptr<Kernel> (*)(const Call& call, const StorageRule& storage, bool tf32, ConvolutionChoice choice);
using KernelOf = std::unique_ptr<Kernel> (*)(const Call& call, const LibraryConvolution& convolution);

// The kernel that is taken where nothing is chosen, the block program, and all that the library has, not only those which are fast
// or small: a plan that was saved names one of them, whatever was timed since.
std::vector<PreparedAlternative> alternatives_of(const Call& call, const StorageRule& storage, bool tf32, Make make,
                                                 LibraryConvolution (*library_of)(const Call&), KernelOf kernel_of, bool relu) {
  std::vector<PreparedAlternative> found;
  const auto add = [&](std::unique_ptr<Kernel> kernel, double seconds) {
    const auto same = std::ranges::find_if(found, [&](const auto& other) { return other.kernel->name() == kernel->name(); });
    if (same == found.end())
      found.push_back({std::move(kernel), seconds});
    else if (seconds >= 0)
      same->seconds = seconds;
  };
  add(make(call, storage, tf32, convolution_choice()), -1);
  const auto empty = [](const Box& box) { return box.empty(); };
  if (std::ranges::any_of(std::span(call.boxes.in).first(2), empty) || call.boxes.out[0].empty()) return found;
  add(make(call, storage, tf32, ConvolutionChoice::own), -1);
  const bool bias = kernel_of == forward_kernel && has_bias(call);
  for (const LibraryConvolution& one : library_of(call).by_every_plan(bias, relu, tf32)) add(kernel_of(call, one), one.seconds());
  return found;
}

}  // namespace

std::vector<PreparedAlternative> convolution_alternatives(const Call& call, const StorageRule& storage, bool tf32) {
  const bool relu = call.site.word("activation") == "relu";
  return alternatives_of(call, storage, tf32, make_convolution, forward_of, forward_kernel, relu);
}
std::vector<PreparedAlternative> spread_alternatives(const Call& call, const StorageRule& storage, bool tf32) {
  return alternatives_of(call, storage, tf32, make_spread, spread_of, spread_kernel, false);
}
std::vector<PreparedAlternative> convolution_weights_alternatives(const Call& call, const StorageRule& storage, bool tf32) {
  return alternatives_of(call, storage, tf32, make_convolution_weights, weights_of, weights_kernel, false);
}

}  // namespace outsize::OUTSIZE_PLACE
