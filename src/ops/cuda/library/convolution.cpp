#include "ops/cuda/library/convolution.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "base/alignment.h"
#include "base/error.h"
#include "ops/cuda/library/cudnn.h"
#include "ops/cuda/library/trial.h"
#include "ops/cuda/library/tuned.h"

namespace outsize {

namespace {

constexpr std::size_t kMostTried = 10;
// Of a map, that plans are tried on at the most: enough to keep every card busy.
constexpr std::int64_t kSampledPositions = std::int64_t{1} << 22;

// What the tensors of a graph are called.
enum Id : std::int64_t { kX = 1, kW, kY, kBias, kConvolved, kBiased };

Dims packed_channels_last(const Dims& shape) {
  Dims strides = shape;
  std::int64_t next = shape[1];
  for (int i = shape.rank() - 1; i >= 2; --i) {
    strides[i] = next;
    next *= shape[i];
  }
  strides[0] = next;
  strides[1] = 1;
  return strides;
}

Dims packed_plain(const Dims& shape) {
  Dims strides = shape;
  std::int64_t next = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = next;
    next *= shape[i];
  }
  return strides;
}

CudnnDescriptor tensor(Id id, const Dims& shape, const Dims& strides, std::int64_t alignment, bool is_virtual = false) {
  CudnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<std::int64_t>(id))
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, shape)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .finish();
  return made;
}

// Which attributes a pass has for what.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};

Names names_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case ConvolutionPass::data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvolutionPass::weights: break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

// The graph of a convolution, with all that it is made of. `handle` is null for a card that is described.
class Graph {
 public:
  Graph(const ConvolutionSignature& s, cudnnHandle_t handle) : graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    const bool fused = s.bias || s.relu;
    const CudnnDescriptor& x = keep(tensor(kX, s.x, packed_channels_last(s.x), s.alignment));
    const CudnnDescriptor& w = keep(tensor(kW, s.w, packed_plain(s.w), 16));
    const CudnnDescriptor& y =
        keep(tensor(fused ? kConvolved : kY, s.y, packed_channels_last(s.y), s.alignment, /*is_virtual=*/fused));
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    CudnnDescriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(s.rank()))
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, s.dilation)
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, s.stride)
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, s.before)
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, s.after)
        .finish();
    const Names names = names_of(s.pass);
    CudnnDescriptor operation(names.operation);
    operation.set(names.alpha, 1.0f)
        .set(names.beta, s.accumulate ? 1.0f : 0.0f)
        .set(names.convolution, keep(std::move(convolution)))
        .set(names.x, x)
        .set(names.w, w)
        .set(names.y, y)
        .finish();
    add(std::move(operation));
    if (s.bias) {
      Dims channels = Dims::filled(s.y.rank(), 1);
      channels[1] = s.y[1];
      const CudnnDescriptor& bias = keep(tensor(kBias, channels, packed_channels_last(channels), 16));
      const CudnnDescriptor& sum =
          keep(tensor(s.relu ? kBiased : kY, s.y, packed_channels_last(s.y), s.alignment, /*is_virtual=*/s.relu));
      CudnnDescriptor addition(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
      addition.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise(CUDNN_POINTWISE_ADD))
          .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, y)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, sum)
          .finish();
      add(std::move(addition));
      if (s.relu) {
        const CudnnDescriptor& result = keep(tensor(kY, s.y, packed_channels_last(s.y), s.alignment));
        CudnnDescriptor relu(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        relu.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise(CUDNN_POINTWISE_RELU_FWD))
            .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum)
            .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result)
            .finish();
        add(std::move(relu));
      }
    }
    if (!why_.empty()) return;
    if (handle) graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    graph_
        .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(operations_.size()),
             operations_.data())
        .finish();
    why_ = graph_.why();
  }

  // What cuDNN answered where it has no such graph; else empty.
  const std::string& why() const { return why_; }
  const CudnnDescriptor& descriptor() const { return graph_; }

 private:
  const CudnnDescriptor& keep(CudnnDescriptor made) {
    if (why_.empty()) why_ = made.why();
    parts_.push_back(std::make_unique<CudnnDescriptor>(std::move(made)));
    return *parts_.back();
  }
  void add(CudnnDescriptor operation) { operations_.push_back(keep(std::move(operation)).raw()); }
  const CudnnDescriptor& pointwise(cudnnPointwiseMode_t mode) {
    CudnnDescriptor made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    made.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
        .finish();
    return keep(std::move(made));
  }

  std::vector<std::unique_ptr<CudnnDescriptor>> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  CudnnDescriptor graph_;
  std::string why_;
};

// Same bits every time, without a compiler at run time, and as precise as asked.
bool permitted(const CudnnDescriptor& engine, bool tf32) {
  std::array<cudnnBackendNumericalNote_t, 32> numerical{};
  const std::int64_t count =
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::ssize(numerical), numerical.data());
  for (std::int64_t i = 0; i < count; ++i) {
    const cudnnBackendNumericalNote_t note = numerical[static_cast<std::size_t>(i)];
    if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) return false;
    // Tensor cores, fewer bits of the inputs, sums in another form.
    if (note != CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP && !tf32) return false;
  }
  std::array<cudnnBackendBehaviorNote_t, 32> behavior{};
  const std::int64_t notes =
      engine.get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, std::ssize(behavior), behavior.data());
  return std::find(behavior.begin(), behavior.begin() + notes, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) == behavior.begin() + notes;
}

struct Candidate {
  CudnnDescriptor plan;
  std::int64_t engine = 0;
  std::int64_t workspace_bytes = 0;
  std::string knobs;  // "/2-1/5-3": the settings that it has, each its number and its value

  std::string engine_name() const { return fmt::format("cudnn:engine{}", engine); }
  std::string name() const { return engine_name() + knobs; }
};

std::string knobs_of(const CudnnDescriptor& configuration) {
  const std::int64_t count = configuration.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<CudnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) raw.push_back(choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).raw());
  const std::int64_t found = configuration.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data());
  std::string text;
  for (std::int64_t i = 0; i < std::min(found, count); ++i) {
    cudnnBackendKnobType_t type{};
    const CudnnDescriptor& choice = choices[static_cast<std::size_t>(i)];
    choice.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    text += fmt::format("/{}-{}", static_cast<int>(type), choice.get_integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  return text;
}

// Calls take(candidate) for the plans that are permitted, in cuDNN's order, until it returns false. `device` is null for the card
// in use. What cuDNN answered where it has none.
template <class Take>
std::string for_each_candidate(const ConvolutionSignature& signature, const CudnnDescriptor* device, const Take& take) {
  const cudnnHandle_t handle = device ? nullptr : cudnn_handle();
  const Graph graph(signature, handle);
  if (!graph.why().empty()) return graph.why();
  std::string why;
  std::int64_t passed_over = 0;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor())
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (device) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device);
    heuristic.finish();
    if (!heuristic.ok()) {
      why = heuristic.why();
      continue;
    }
    const std::int64_t offered = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
    std::vector<CudnnDescriptor> configurations;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::int64_t i = 0; i < offered; ++i) raw.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
    const std::int64_t found = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, offered, raw.data());
    for (std::int64_t i = 0; i < std::min(found, offered); ++i) {
      const CudnnDescriptor& configuration = configurations[static_cast<std::size_t>(i)];
      CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      cudnnBackendDescriptor_t engine_of_it = engine.raw();
      configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine_of_it);
      if (!permitted(engine, signature.tf32)) {
        ++passed_over;
        continue;
      }
      CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      if (device)
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *device);
      else
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration).finish();
      if (!plan.ok()) {
        why = plan.why();
        continue;
      }
      const std::int64_t workspace = plan.get_integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      if (!take(Candidate{std::move(plan), engine.get_integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), workspace, knobs_of(configuration)}))
        return why;
    }
  }
  if (why.empty())
    why = fmt::format("{} plans are not deterministic or less precise than asked, and there is no other", passed_over);
  return why;
}

class CudnnPlan final : public ConvolutionPlan {
 public:
  CudnnPlan(Candidate candidate, bool bias) : candidate_(std::move(candidate)), bias_(bias) {}
  std::string name() const override { return candidate_.name(); }
  std::string engine_name() const { return candidate_.engine_name(); }
  std::int64_t workspace_bytes() const override { return candidate_.workspace_bytes; }
  double seconds() const override { return seconds_; }
  void measured(double seconds) { seconds_ = seconds; }

  void run(const ConvolutionOperands& operands, std::byte* workspace, void* queue) const override {
    if (const cudnnStatus_t status = execute(operands, workspace, queue); status != CUDNN_STATUS_SUCCESS)
      internal_error("{} cannot be run: {}", name(), cudnn().explain(status));
  }
  cudnnStatus_t execute(const ConvolutionOperands& operands, std::byte* workspace, void* queue) const {
    use_stream(queue);
    std::array<void*, 4> pointers{operands.x, operands.w, operands.y, operands.bias};
    constexpr std::array<std::int64_t, 4> kIds{kX, kW, kY, kBias};
    const std::int64_t count = bias_ ? 4 : 3;
    void* memory = workspace;
    CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data())
        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, kIds.data())
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &memory)
        .finish();
    if (!pack.ok()) internal_error("cuDNN does not take the operands of {}: {}", name(), pack.why());
    return cudnn().execute(cudnn_handle(), candidate_.plan.raw(), pack.raw());
  }

 private:
  Candidate candidate_;
  bool bias_;
  double seconds_ = -1;
};

std::int64_t operand_bytes(const ConvolutionSignature& s) { return 4 * (s.x.product() + s.w.product() + s.y.product() + s.y[1]); }

// The operands of a convolution in memory to try plans with.
class ConvolutionTrial {
 public:
  // Nothing where there is not enough memory.
  static std::unique_ptr<ConvolutionTrial> make(const ConvolutionSignature& signature, std::int64_t workspace) {
    auto made = std::unique_ptr<ConvolutionTrial>(new ConvolutionTrial(signature));
    made->trial_ = Trial::make(made->end_ + workspace);
    if (!made->trial_) return nullptr;
    if (signature.relu) {
      // NaN
      const bool set = cudaMemset(made->operands().bias, 0xff, static_cast<std::size_t>(4 * signature.y[1])) == cudaSuccess;
      if (!set || cudaDeviceSynchronize() != cudaSuccess) return nullptr;
    }
    return made;
  }
  ConvolutionTrial(const ConvolutionTrial&) = delete;
  ConvolutionTrial& operator=(const ConvolutionTrial&) = delete;
  ~ConvolutionTrial() {
    if (trial_) use_stream(nullptr);
  }

  // The least of a few times; nothing where it fails, or loses a NaN.
  std::optional<double> seconds(const CudnnPlan& plan, double best) {
    return trial_->seconds([&] { return run(plan); }, best, [&] { return !relu_ || kept_nan(); });
  }

 private:
  explicit ConvolutionTrial(const ConvolutionSignature& s) : relu_(s.relu) {
    const auto book = [&](std::int64_t elements) {
      const std::int64_t at = end_;
      end_ += (4 * elements + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    x_ = book(s.x.product());
    w_ = book(s.w.product());
    y_ = book(s.y.product());
    bias_ = book(s.y[1]);
    checked_ = static_cast<std::size_t>(std::min<std::int64_t>(s.y.product(), std::ssize(first_)));
  }
  ConvolutionOperands operands() const {
    std::byte* const base = trial_->memory();
    return {base + x_, base + w_, base + y_, base + bias_};
  }
  bool run(const CudnnPlan& plan) const {
    return plan.execute(operands(), trial_->memory() + end_, trial_->queue()) == CUDNN_STATUS_SUCCESS;
  }
  // With a bias of NaN, all of y must be NaN.
  bool kept_nan() {
    first_.fill(0);
    return cudaMemcpy(first_.data(), operands().y, checked_ * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess &&
           std::all_of(first_.begin(), first_.begin() + static_cast<std::ptrdiff_t>(checked_),
                       [](float number) { return std::isnan(number); });
  }

  bool relu_;
  std::int64_t x_ = 0, w_ = 0, y_ = 0, bias_ = 0, end_ = 0;
  std::size_t checked_ = 0;
  std::array<float, 64> first_{};
  std::unique_ptr<Trial> trial_;
};

// Those that no other beats in both time and workspace, the fastest first.
ConvolutionPlans front_of(std::vector<std::shared_ptr<CudnnPlan>> tried) {
  std::ranges::stable_sort(tried, {}, [](const auto& plan) { return plan->seconds(); });
  ConvolutionPlans front;
  for (auto& plan : tried)
    if (front.empty() || plan->workspace_bytes() < front.back()->workspace_bytes()) front.push_back(std::move(plan));
  return front;
}

struct Found {
  ConvolutionPlans plans;
  ConvolutionPlans all;
  std::string why;
};

// The first few candidates and, where none of them keeps the limit, the first beyond them that does.
std::vector<Candidate> first_candidates(const ConvolutionSignature& signature, const CudnnDescriptor* device, std::size_t few,
                                        std::string& why) {
  std::vector<Candidate> candidates;
  bool fits = false;
  why = for_each_candidate(signature, device, [&](Candidate candidate) {
    const bool one = candidate.workspace_bytes <= workspace_limit(signature);
    if (candidates.size() < few || (one && !fits)) candidates.push_back(std::move(candidate));
    fits = fits || one;
    return candidates.size() < few || !fits;
  });
  return candidates;
}

// The same number with all but its three highest binary digits 0.
std::int64_t rounded_down(std::int64_t number) {
  const int low = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(number))) - 3);
  return number >> low << low;
}

using CudnnPlans = std::vector<std::shared_ptr<CudnnPlan>>;

// The permitted plans of a signature, the first few as first_candidates() has them.
CudnnPlans candidates_of(const ConvolutionSignature& signature, std::string& why) {
  CudnnPlans candidates;
  for (Candidate& candidate : first_candidates(signature, nullptr, kMostTried, why))
    candidates.push_back(std::make_shared<CudnnPlan>(std::move(candidate), signature.bias));
  return candidates;
}

// Gives the candidates the seconds that they took here before, and tries the others. Those that cannot be run keep none; nothing is
// tried where there is no memory for it, not even within the limit of workspace.
bool time_candidates(const ConvolutionSignature& signature, const CudnnPlans& candidates) {
  const std::string call = to_string(signature);
  const auto way_of = [&](std::size_t i) {
    return fmt::format("cuDNN {}, candidate {}, {}", cudnn().version(), i, candidates[i]->engine_name());
  };
  std::vector<std::size_t> unknown;
  double best = INFINITY;
  std::int64_t workspace = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (const std::optional<double> seconds = tuned_seconds(call, way_of(i))) {
      candidates[i]->measured(*seconds);
      best = std::min(best, *seconds);
    } else {
      unknown.push_back(i);
      workspace = std::max(workspace, candidates[i]->workspace_bytes());
    }
  }
  if (unknown.empty()) return true;
  std::unique_ptr<ConvolutionTrial> trial = ConvolutionTrial::make(signature, workspace);
  if (!trial) {
    // What asks for most is left out.
    workspace = workspace_limit(signature);
    trial = ConvolutionTrial::make(signature, workspace);
  }
  if (!trial) return false;
  for (const std::size_t i : unknown) {
    if (candidates[i]->workspace_bytes() > workspace) continue;
    const double seconds = trial->seconds(*candidates[i], best).value_or(INFINITY);
    candidates[i]->measured(seconds);
    keep_tuned_seconds(call, way_of(i), seconds);
    best = std::min(best, seconds);
  }
  return true;
}

// The plans of a sample with the seconds that they took, found once a process; none where there is no memory to try them in.
const CudnnPlans& tried_plans(const ConvolutionSignature& sample) {
  // Never destroyed: the library may have ended before.
  static std::map<std::string, CudnnPlans>& known = *new std::map<std::string, CudnnPlans>();
  const auto [at, is_new] = known.try_emplace(to_string(sample));
  if (is_new) {
    std::string why;
    CudnnPlans candidates = candidates_of(sample, why);
    if (time_candidates(sample, candidates)) at->second = std::move(candidates);
  }
  return at->second;
}

// Gives the candidates the seconds that those of the sample took, as many more as the signature has positions: of the plan with the
// same name, or else of the fastest of the same engine. Whether any has some now.
bool take_times(const ConvolutionSignature& signature, const CudnnPlans& candidates, const ConvolutionSignature& sample,
                const CudnnPlans& tried) {
  const double more = static_cast<double>(signature.y.product()) / static_cast<double>(sample.y.product());
  bool any = false;
  for (const auto& candidate : candidates) {
    double seconds = INFINITY;
    for (const auto& other : tried) {
      if (other->seconds() < 0 || other->engine_name() != candidate->engine_name()) continue;
      if (other->name() == candidate->name()) {
        seconds = other->seconds();
        break;
      }
      seconds = std::min(seconds, other->seconds());
    }
    if (std::isinf(seconds)) continue;
    candidate->measured(seconds * more);
    any = true;
  }
  return any;
}

Found find_plans(const ConvolutionSignature& signature) {
  Found found;
  CudnnPlans candidates = candidates_of(signature, found.why);
  const ConvolutionSignature sample = sample_of(signature);
  bool timed = false;
  if (to_string(sample) != to_string(signature)) timed = take_times(signature, candidates, sample, tried_plans(sample));
  if (!timed && !time_candidates(signature, candidates)) {
    if (signature.relu)
      found.why = "there is no memory to see what it makes of NaN";
    else
      found.plans.assign(candidates.begin(), candidates.end());
    found.all = found.plans;
    return found;
  }
  std::erase_if(candidates, [](const auto& candidate) { return candidate->seconds() < 0 || std::isinf(candidate->seconds()); });
  const bool none = candidates.empty();
  found.all.assign(candidates.begin(), candidates.end());
  found.plans = front_of(std::move(candidates));
  if (none && found.why.empty()) found.why = "none of its plans could be run";
  return found;
}

}  // namespace

ConvolutionSignature sample_of(ConvolutionSignature s) {
  const auto positions = [&] { return s.y.product() / s.y[1]; };
  const auto keep_rows = [&](std::int64_t rows) {
    const std::int64_t less = s.y[2] - rows;
    if (rows < 1 || less <= 0 || s.x[2] <= less * s.stride[0]) return false;
    s.y[2] -= less;
    s.x[2] -= less * s.stride[0];
    return true;
  };
  while (positions() > kSampledPositions && s.y[0] > 1) s.y[0] = s.x[0] = s.y[0] / 2;
  while (positions() > kSampledPositions && keep_rows(s.y[2] / 2)) {
  }
  if (s.y[0] > 1)
    s.y[0] = s.x[0] = rounded_down(s.y[0]);
  else
    keep_rows(rounded_down(s.y[2]));
  return s;
}

std::string cudnn_name() {
  try {
    const auto version = static_cast<std::int64_t>(cudnn().version());
    return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  } catch (const UserError&) {
    return "no cuDNN";
  }
}

namespace {

const Found& found_for(const ConvolutionSignature& signature) {
  check(signature);
  // Never destroyed: the library may have ended before.
  static std::map<std::string, Found>& known = *new std::map<std::string, Found>();
  const std::string key = to_string(signature);
  auto at = known.find(key);
  if (at == known.end()) at = known.emplace(key, find_plans(signature)).first;
  return at->second;
}

}  // namespace

const ConvolutionPlans& convolution_plans(const ConvolutionSignature& signature, std::string* why) {
  const Found& found = found_for(signature);
  if (why) *why = found.why;
  return found.plans;
}

const ConvolutionPlans& all_convolution_plans(const ConvolutionSignature& signature) { return found_for(signature).all; }

std::int64_t workspace_limit(const ConvolutionSignature& signature) {
  return std::min(kMostWorkspace, operand_bytes(signature) + kMostOver);
}

std::shared_ptr<const ConvolutionPlan> choose(const ConvolutionPlans& plans, const ConvolutionSignature& signature) {
  const std::int64_t most = workspace_limit(signature);
  std::shared_ptr<const ConvolutionPlan> least;
  for (const auto& plan : plans) {
    if (plan->workspace_bytes() <= most) return plan;
    if (!least || plan->workspace_bytes() < least->workspace_bytes()) least = plan;
  }
  return least;
}

std::vector<PlannedConvolution> planned_convolutions(const ConvolutionSignature& signature, const std::string& device, int few,
                                                     std::string* why) {
  check(signature);
  CudnnDescriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties
      .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(device.size()), device.data())
      .finish();
  std::vector<PlannedConvolution> planned;
  std::string answer = properties.why();
  if (properties.ok())
    for (const Candidate& candidate : first_candidates(signature, &properties, static_cast<std::size_t>(few), answer))
      planned.push_back({candidate.name(), candidate.workspace_bytes});
  if (why) *why = answer;
  return planned;
}

}  // namespace outsize
