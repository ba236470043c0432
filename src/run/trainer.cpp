#include "run/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>

#include "base/philox.h"
#include "base/sha256.h"
#include "run/saved_plan.h"

namespace outsize {

namespace {

std::vector<std::byte> buffer_for(const ValueType& type) {
  return std::vector<std::byte>(static_cast<std::size_t>(type.elements() * size_of(type.dtype)));
}

// [positions, features]: feature 2i is sin(p / 10000^(2i/features)), feature 2i + 1 its cosine. The elements from `first` on.
template <class T>
void fill_sinusoids(std::span<T> values, std::int64_t first, const Dims& shape) {
  if (shape.rank() != 2) user_error("init=sinusoid fills values [positions, features], found {}", to_string(shape));
  for (T& value : values) {
    const std::int64_t p = first / shape[1], i = first % shape[1];
    const double exponent = static_cast<double>(i / 2 * 2) / static_cast<double>(shape[1]);
    const double angle = static_cast<double>(p) / std::pow(10000.0, exponent);
    value = static_cast<T>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    ++first;
  }
}

// The elements of a value from `first` on, which is even.
template <class T>
void fill(std::span<T> values, std::int64_t first, const Dims& shape, const Init& init, const RandomStream& stream) {
  const auto begin = static_cast<std::uint64_t>(first);
  switch (init.kind) {
    case Init::Kind::zeros: std::fill(values.begin(), values.end(), T{0}); break;
    case Init::Kind::ones: std::fill(values.begin(), values.end(), T{1}); break;
    case Init::Kind::constant: std::fill(values.begin(), values.end(), static_cast<T>(init.scale)); break;
    case Init::Kind::sinusoid: fill_sinusoids(values, first, shape); break;
    case Init::Kind::normal:
      for (std::size_t i = 0; i < values.size(); i += 2) {
        const auto pair = stream.normal_pair((begin + i) / 2);
        values[i] = static_cast<T>(pair[0] * init.scale);
        if (i + 1 < values.size()) values[i + 1] = static_cast<T>(pair[1] * init.scale);
      }
      break;
    case Init::Kind::uniform:
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>((2 * stream.uniform(begin + i) - 1) * init.scale);
      break;
  }
}

// Writes a part of what a value begins with: its elements from `first` on.
void initialise_part(const Value& value, std::uint64_t seed, std::int64_t first, std::span<std::byte> part) {
  const RandomStream stream(seed, value.name);
  const std::size_t count = part.size() / static_cast<std::size_t>(size_of(value.type.dtype));
  if (value.type.dtype == DType::f32)
    fill(std::span(reinterpret_cast<float*>(part.data()), count), first, value.type.shape, value.init, stream);
  else if (value.type.dtype == DType::f64)
    fill(std::span(reinterpret_cast<double*>(part.data()), count), first, value.type.shape, value.init, stream);
  else if (value.init.kind != Init::Kind::zeros)
    user_error("'{}' of {} can only be initialised with zeros", value.name, to_string(value.type));
  else
    std::fill(part.begin(), part.end(), std::byte{0});
}

// A number as the bytes of a one-element value.
std::vector<std::byte> scalar_bytes(DType dtype, double number) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(dtype)));
  const float single = static_cast<float>(number);
  std::memcpy(bytes.data(), dtype == DType::f64 ? static_cast<const void*>(&number) : &single, bytes.size());
  return bytes;
}

double scalar(DType dtype, std::span<const std::byte> bytes) {
  double wide = 0;
  float single = 0;
  std::memcpy(dtype == DType::f64 ? static_cast<void*>(&wide) : &single, bytes.data(), bytes.size());
  return dtype == DType::f64 ? wide : single;
}

std::vector<std::byte> integer_bytes(std::initializer_list<std::uint32_t> numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(std::uint32_t));
  std::memcpy(bytes.data(), std::data(numbers), bytes.size());
  return bytes;
}

std::uint32_t low(std::uint64_t number) { return static_cast<std::uint32_t>(number); }
std::uint32_t high(std::uint64_t number) { return static_cast<std::uint32_t>(number >> 32); }

// The tensor of a saved file that says how many steps were made.
const std::string kSteps = "training.steps";

// Programs of other shapes than the main one's that are kept.
constexpr std::size_t kMostPrograms = 32;

// Planners try kernels that the program does not use. They go, and with them what planning has taken, before the arenas come.
void release_tried(const Graph& graph, const Program& program, Backend& backend) {
  std::vector<std::shared_ptr<const Kernel>> used;
  for (const Instruction& instruction : program.instructions)
    if (instruction.action == Action::kernel)
      used.push_back(backend.kernel(call_of(graph, program, instruction), instruction.lane));
  backend.release_kernels();
}

// Throws UserError that lists parameters of the model which `file` lacks, or has in another shape.
void refuse_file(const SafetensorsFile& file, const std::vector<std::string>& missing, const std::vector<std::string>& misshaped) {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> lines;
  const auto list = [&](const std::vector<std::string>& names, std::string_view what) {
    if (names.empty()) return;
    const std::size_t shown = std::min(names.size(), kShown);
    std::string line =
        fmt::format("{}{}", what, fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (names.size() > shown) line += fmt::format(" and {} more", names.size() - shown);
    lines.push_back(std::move(line));
  };
  list(missing, "it lacks ");
  list(misshaped, "of another shape: ");
  if (lines.empty()) return;
  user_error("{}: does not fit the model: {}; --partial takes what fits", file.path(), fmt::join(lines, "; "));
}

// Gives a step an input that is in memory as `whole` or, where that is empty, read by `windows`.
void give(Executor& executor, ValueId id, const ValueType& type, const std::vector<std::byte>& whole,
          const WindowReader& windows = nullptr) {
  if (!executor.takes_windows(id)) {
    if (!windows) return executor.write(id, whole);
    return executor.write(id, windows);
  }
  if (windows) return executor.source(id, windows);
  executor.source(id, [&whole, shape = type.shape, bytes = size_of(type.dtype)](const Box& window, std::byte* out) {
    for_each_row(shape, window, [&](std::int64_t offset, std::int64_t count) {
      std::memcpy(out, whole.data() + offset * bytes, static_cast<std::size_t>(count * bytes));
      out += count * bytes;
    });
  });
}

// Whether no number of these is NaN or infinite.
bool is_finite(DType dtype, std::span<const std::byte> bytes) {
  const auto all_finite = [&]<class T>(T) {
    const std::span numbers(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
    return std::ranges::all_of(numbers, [](T number) { return std::isfinite(number); });
  };
  return dtype == DType::f32 ? all_finite(0.0f) : dtype == DType::f64 ? all_finite(0.0) : true;
}

TensorEntry entry_of(std::string name, const ValueType& type) {
  return {std::move(name), element_type_of(type.dtype), type.shape, 0};
}

}  // namespace

void Score::add(const Score& batch) {
  const double weight = static_cast<double>(rows > 0 ? rows : samples);
  const double more = static_cast<double>(batch.rows > 0 ? batch.rows : batch.samples);
  if (weight + more > 0) loss = (loss * weight + batch.loss * more) / (weight + more);
  samples += batch.samples;
  rows += batch.rows;
  correct += batch.correct;
  correct5 += batch.correct5;
}

ExecutorOptions Trainer::executor_options() const {
  ExecutorOptions options;
  options.canary_bytes = kCanaryBytes;
  options.debug_memory = kCanaryBytes > 0;
  options.check_spill = check_spill_ || options.debug_memory;
  options.trace = trace_;
  return options;
}

Trainer::Trainer(StepProgram main, Backend& backend, std::uint64_t seed, const std::string& spill_directory, Maker maker,
                 bool check_spill, bool trace)
    : backend_(backend), maker_(std::move(maker)), check_spill_(check_spill), trace_(trace), seed_(seed) {
  const StepGraph& step = main.step;
  OUTSIZE_CHECK(step.kind == StepKind::whole || step.kind == StepKind::last || step.kind == StepKind::evaluate);
  layout_ = layout_of(step.graph, main.prepared.program);
  ExecutorOptions options = executor_options();
  options.spill_directory = spill_directory;
  // One a run of an instruction, which in tiles of a large image are millions; a run has no use for them.
  main.prepared.predicted.events = {};
  release_tried(step.graph, main.prepared.program, backend);
  memory_ = make_memory(main.prepared.program, backend, options);
  const Dims& shape = step.graph.value(step.x).type.shape;
  const Key key{step.kind, {shape.begin(), shape.end()}};
  main_ = &programs_.emplace(key, Entry{std::move(main), nullptr, 0}).first->second;
  initialise();
}

Trainer::~Trainer() = default;

void Trainer::initialise() {
  const Entry& entry = ready(*main_);
  for (Role role : {Role::parameter, Role::state})
    for (ValueId id : persistent(role))
      entry.executor->write_parts(
          id, [&](std::int64_t first, std::span<std::byte> part) { initialise_part(main().graph.value(id), seed_, first, part); });
}

// The main program, or one that is made when it is first asked for, from which the least used ones make room.
Trainer::Entry& Trainer::program(StepKind kind, const Dims& x_shape) {
  const Key key{kind, {x_shape.begin(), x_shape.end()}};
  if (const auto found = programs_.find(key); found != programs_.end()) return found->second;
  if (!maker_)
    user_error("expected batches of {}, found {}", to_string(main().graph.value(main().x).type.shape), to_string(x_shape));
  StepProgram made = maker_(kind, x_shape, layout_);
  made.prepared.predicted.events = {};
  if (programs_.size() > kMostPrograms) drop_least_used();
  return programs_.emplace(key, Entry{std::move(made), nullptr, uses_}).first->second;
}

void Trainer::drop_least_used() {
  auto least = programs_.end();
  for (auto entry = programs_.begin(); entry != programs_.end(); ++entry)
    if (&entry->second != main_ && (least == programs_.end() || entry->second.used < least->second.used)) least = entry;
  programs_.erase(least);
  backend_.release_kernels();
}

// Gives the memory its size if a program is larger than all before.
void Trainer::make_room(const Entry& entry) {
  const Program& program = entry.program.prepared.program;
  if (!memory_->smaller_than(program.peak_bytes)) return;
  for (auto& [key, other] : programs_) other.executor.reset();  // they hold addresses
  memory_->grow(program.peak_bytes);
  ready(*main_);  // which reads and writes the persistent values
}

// Gives a program its executor.
Trainer::Entry& Trainer::ready(Entry& entry) {
  entry.used = ++uses_;
  if (entry.executor) return entry;
  make_room(entry);
  if (!entry.executor)
    entry.executor =
        std::make_unique<Executor>(entry.program.step.graph, entry.program.prepared.program, backend_, memory_, executor_options());
  return entry;
}

std::int64_t Trainer::memory_bytes() const {
  std::int64_t bytes = 0;
  for (const Tier tier : {Tier::device, Tier::host})
    if (backend_.addressable(tier)) bytes += memory_->sizes()[tier];
  return bytes;
}

std::vector<ValueId> Trainer::persistent(Role role) const {
  const Graph& graph = main().graph;
  std::vector<bool> is_sum(graph.values().size());
  for (ValueId sum : main().sums) is_sum[static_cast<std::size_t>(sum.index)] = true;
  std::vector<ValueId> found;
  for (std::int64_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (value.role == role && !value.producer && !is_sum[static_cast<std::size_t>(i)]) found.push_back(ValueId(i));
  }
  std::sort(found.begin(), found.end(), [&](ValueId a, ValueId b) { return graph.value(a).name < graph.value(b).name; });
  return found;
}

Trainer::Entry& Trainer::run(StepKind kind, const Batch& batch, std::int64_t samples, double learning_rate) {
  Entry& entry = ready(program(kind, batch.x_shape));
  const StepGraph& step = entry.program.step;
  Executor& executor = *entry.executor;
  const auto number = [&](ValueId value, double content) {
    if (value) executor.write(value, scalar_bytes(step.graph.value(value).type.dtype, content));
  };
  give(executor, step.x, step.graph.value(step.x).type, batch.x, batch.windows);
  give(executor, step.y, step.graph.value(step.y).type, batch.y, batch.y_windows);
  number(step.loss_gradient, samples == batch.samples ? 1 : static_cast<double>(batch.samples) / static_cast<double>(samples));
  number(step.learning_rate, learning_rate);
  const auto made = static_cast<std::uint64_t>(steps_);
  // Past 2³¹ steps the bias corrections of Adam have long been 1.
  constexpr std::uint64_t kMostSteps = std::numeric_limits<std::int32_t>::max();
  if (step.step) executor.write(step.step, integer_bytes({low(std::min(made + 1, kMostSteps))}));
  // No run makes 2⁴⁰ steps.
  const std::uint64_t draw = made + (static_cast<std::uint64_t>(parts_) << 40);
  if (step.random_key) executor.write(step.random_key, integer_bytes({low(seed_), high(seed_), low(draw), high(draw)}));

  const auto begin = std::chrono::steady_clock::now();
  executor.step();
  step_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const Tier tier : kTiers)
    predicted_peaks_[tier] = std::max(predicted_peaks_[tier], entry.program.prepared.program.peak_bytes[tier]);
  return entry;
}

Score Trainer::score_of(const Entry& entry, const Batch& batch) const {
  const StepGraph& step = entry.program.step;
  const auto number = [&](ValueId value) {
    std::vector<std::byte> bytes = buffer_for(step.graph.value(value).type);
    entry.executor->read(value, bytes);
    return scalar(step.graph.value(value).type.dtype, bytes);
  };
  Score score;
  score.loss = number(step.loss);
  score.samples = batch.samples;
  if (!step.correct) return score;
  score.rows = batch.y_windows ? batch.labelled : count_labels(batch.y, step.classes);
  score.correct = number(step.correct);
  score.correct5 = step.correct5 ? number(step.correct5) : 0;
  return score;
}

void Trainer::accumulate(const Batch& batch, std::int64_t samples) {
  OUTSIZE_CHECK(main().kind == StepKind::last);
  if (parts_ == 0) score_ = {}, step_seconds_ = 0;
  const Entry& entry = run(parts_ == 0 ? StepKind::first : StepKind::more, batch, samples, 0);
  score_.add(score_of(entry, batch));
  ++parts_;
}

double Trainer::step(const Batch& batch, double learning_rate, std::int64_t samples) {
  if (parts_ == 0) score_ = {}, step_seconds_ = 0;
  const StepKind kind = parts_ == 0 ? StepKind::whole : StepKind::last;
  const Entry& entry = run(kind, batch, samples > 0 ? samples : batch.samples, learning_rate);
  score_.add(score_of(entry, batch));
  // Copied, because the next program uses the memory they lie in.
  gradients_.clear();
  for (const auto& [subject, gradient] : entry.program.step.gradients) {
    const Graph& graph = entry.program.step.graph;
    std::vector<std::byte> bytes = buffer_for(graph.value(gradient).type);
    entry.executor->read(gradient, bytes);
    const std::string name = "grad." + graph.value(subject).name;
    gradients_[name] = {entry_of(name, graph.value(gradient).type), std::move(bytes)};
  }
  parts_ = 0;
  ++steps_;
  return score_.loss;
}

Score Trainer::evaluate(const Batch& batch) {
  const double before = step_seconds_;
  const Score score = score_of(run(StepKind::evaluate, batch, batch.samples, 0), batch);
  step_seconds_ = before;
  return score;
}

std::vector<std::byte> Trainer::read(ValueId value) const {
  std::vector<std::byte> bytes = buffer_for(main().graph.value(value).type);
  // Persistent values lie where the layout says, whichever program reads them.
  main_->executor->read(value, bytes);
  return bytes;
}

LoadReport Trainer::load(const SafetensorsFile& file, bool partial) {
  LoadReport report;
  const std::set<ValueId> optimizer_states(main().optimizer_states.begin(), main().optimizer_states.end());
  std::vector<std::pair<ValueId, const TensorEntry*>> found;
  std::vector<std::string> lacking;  // parameters
  bool has_parameters = false;
  std::set<std::string> taken;
  for (Role role : {Role::parameter, Role::state})
    for (ValueId id : persistent(role)) {
      const Value& value = main().graph.value(id);
      const TensorEntry* const entry = file.find(value.name);
      if (!entry) {
        if (!optimizer_states.contains(id)) report.missing.push_back(value.name);
        if (role == Role::parameter) lacking.push_back(value.name);
        continue;
      }
      taken.insert(value.name);
      if (entry->shape != value.type.shape) {
        report.misshaped.push_back(
            fmt::format("{} is {}, the model's {}", value.name, to_string(entry->shape), to_string(value.type.shape)));
        continue;
      }
      has_parameters = has_parameters || role == Role::parameter;
      found.emplace_back(id, entry);
    }
  if (!partial) refuse_file(file, lacking, report.misshaped);
  if (!has_parameters) user_error("{}: does not fit the model: it has not one of its parameters", file.path());
  std::int64_t steps = steps_;
  if (const TensorEntry* entry = file.find(kSteps)) {
    if (entry->type != ElementType::i64 || entry->shape != Dims{1})
      user_error("{}: tensor '{}' has type {} and shape {}, expected int64 and [1]", file.path(), kSteps, name_of(entry->type),
                 to_string(entry->shape));
    std::memcpy(&steps, file.read(*entry).data.data(), sizeof steps);
    if (steps < 0) user_error("{}: tensor '{}' is {}, expected at least 0", file.path(), kSteps, steps);
    taken.insert(kSteps);
  }
  const Entry& entry = ready(*main_);
  for (const auto& [id, tensor] : found) {
    const Value& value = main().graph.value(id);
    const std::string what = fmt::format("{}: tensor '{}'", file.path(), value.name);
    entry.executor->write_parts(id, [&, tensor = tensor](std::int64_t first, std::span<std::byte> part) {
      const auto count = static_cast<std::int64_t>(part.size()) / size_of(value.type.dtype);
      const std::vector<std::byte> read = converted(file.read(*tensor, first, count), value.type.dtype, what);
      if (!is_finite(value.type.dtype, read))
        user_error("{} holds what is not a finite number of {}; expected weights to train with", what, name_of(value.type.dtype));
      std::memcpy(part.data(), read.data(), read.size());
    });
  }
  steps_ = steps;
  for (const TensorEntry& tensor : file.entries())
    if (!taken.contains(tensor.name)) report.unexpected.push_back(tensor.name);
  return report;
}

void Trainer::save(const std::string& path) const {
  std::vector<TensorEntry> entries;
  for (Role role : {Role::parameter, Role::state})
    for (ValueId id : persistent(role)) entries.push_back(entry_of(main().graph.value(id).name, main().graph.value(id).type));
  entries.push_back({kSteps, ElementType::i64, {1}, 0});
  for (Role role : {Role::parameter, Role::state})
    for (ValueId id : persistent(role))
      main_->executor->read_parts(id, [&](std::span<const std::byte> part) {
        if (const Value& value = main().graph.value(id); !is_finite(value.type.dtype, part))
          user_error(
              "{}: not written, for {} holds what is not a finite number. A smaller --lr, --warm-up or --clip-norm may help, if "
              "the "
              "data holds no such number itself",
              path, value.name);
      });
  write_safetensors(path, std::move(entries), [this](const TensorEntry& entry, const auto& sink) {
    if (entry.name == kSteps) return sink(std::as_bytes(std::span(&steps_, 1)));
    main_->executor->read_parts(main().graph.find_value(entry.name), sink);
  });
}

void Trainer::save_gradients(const std::string& path, const std::vector<double>& losses) const {
  const std::string kLosses = "losses";
  std::vector<TensorEntry> entries{{kLosses, ElementType::f64, {static_cast<std::int64_t>(losses.size())}, 0}};
  for (const auto& [name, gradient] : gradients_) entries.push_back(gradient.first);
  write_safetensors(path, std::move(entries), [&](const TensorEntry& entry, const auto& sink) {
    if (entry.name == kLosses) return sink(std::as_bytes(std::span(losses)));
    sink(gradients_.at(entry.name).second);
  });
}

std::map<std::string, std::string> Trainer::plans() const {
  std::map<std::string, std::string> texts;
  for (const auto& [key, entry] : programs_) {
    const Graph& graph = entry.program.step.graph;
    const Prepared& prepared = entry.program.prepared;
    texts.emplace(program_name(key.first, Dims(key.second)),
                  print_plan(graph, with_kernels(graph, prepared.plan, prepared.program, backend_)));
  }
  return texts;
}

std::string Trainer::sha256_of(Role role) const {
  Sha256 hash;
  for (ValueId id : persistent(role)) main_->executor->read_parts(id, [&](std::span<const std::byte> part) { hash.update(part); });
  return hash.hex_digest();
}

}  // namespace outsize
