#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>

#include "base/philox.h"
#include "base/sha256.h"
#include "run/training.h"

namespace outsize {

namespace {

std::vector<std::byte> buffer_for(const ValueType& type) {
  return std::vector<std::byte>(static_cast<std::size_t>(type.elements() * size_of(type.dtype)));
}

// [positions, features]: feature 2i is sin(p / 10000^(2i/features)), feature 2i + 1 its cosine.
template <class T>
void fill_sinusoids(std::span<T> values, const Dims& shape) {
  if (shape.rank() != 2) user_error("init=sinusoid fills values [positions, features], found {}", to_string(shape));
  for (std::int64_t p = 0; p < shape[0]; ++p)
    for (std::int64_t i = 0; i < shape[1]; ++i) {
      const double exponent = static_cast<double>(i / 2 * 2) / static_cast<double>(shape[1]);
      const double angle = static_cast<double>(p) / std::pow(10000.0, exponent);
      values[static_cast<std::size_t>(p * shape[1] + i)] = static_cast<T>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
}

template <class T>
void fill(std::span<T> values, const Dims& shape, const Init& init, const RandomStream& stream) {
  switch (init.kind) {
    case Init::Kind::zeros: std::fill(values.begin(), values.end(), T{0}); break;
    case Init::Kind::ones: std::fill(values.begin(), values.end(), T{1}); break;
    case Init::Kind::constant: std::fill(values.begin(), values.end(), static_cast<T>(init.scale)); break;
    case Init::Kind::sinusoid: fill_sinusoids(values, shape); break;
    case Init::Kind::normal:
      for (std::size_t i = 0; i < values.size(); i += 2) {
        const auto pair = stream.normal_pair(i / 2);
        values[i] = static_cast<T>(pair[0] * init.scale);
        if (i + 1 < values.size()) values[i + 1] = static_cast<T>(pair[1] * init.scale);
      }
      break;
    case Init::Kind::uniform:
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>((2 * stream.uniform(i) - 1) * init.scale);
      break;
  }
}

std::vector<std::byte> initial(const Value& value, std::uint64_t seed) {
  std::vector<std::byte> bytes = buffer_for(value.type);
  const RandomStream stream(seed, value.name);
  const auto count = static_cast<std::size_t>(value.type.elements());
  if (value.type.dtype == DType::f32)
    fill(std::span(reinterpret_cast<float*>(bytes.data()), count), value.type.shape, value.init, stream);
  else if (value.type.dtype == DType::f64)
    fill(std::span(reinterpret_cast<double*>(bytes.data()), count), value.type.shape, value.init, stream);
  else if (value.init.kind != Init::Kind::zeros)
    user_error("'{}' of {} can only be initialised with zeros", value.name, to_string(value.type));
  return bytes;
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

TensorEntry entry_of(std::string name, const ValueType& type) {
  return {std::move(name), element_type_of(type.dtype), type.shape, 0};
}

}  // namespace

ExecutorOptions Trainer::executor_options(const std::string& spill_directory) {
  ExecutorOptions options;
  options.spill_directory = spill_directory;
  options.canary_bytes = kCanaryBytes;
  options.debug_memory = kCanaryBytes > 0;
  return options;
}

Trainer::Trainer(TrainingGraph training, Prepared prepared, Backend& backend, std::uint64_t seed,
                 const std::string& spill_directory)
    : Trainer(std::move(training), prepared, backend, seed,
              make_memory(std::array<const Program*, 1>{&prepared.program}, backend, executor_options(spill_directory))) {}

Trainer::Trainer(TrainingGraph training, Prepared prepared, Backend& backend, std::uint64_t seed, std::shared_ptr<Memory> memory)
    : training_(std::move(training)), prepared_(std::move(prepared)), seed_(seed) {
  executor_ = std::make_unique<Executor>(training_.graph, prepared_.program, backend, std::move(memory), executor_options({}));
  initialise();
}

void Trainer::initialise() {
  for (Role role : {Role::parameter, Role::state})
    for (ValueId id : persistent(role)) executor_->write(id, initial(training_.graph.value(id), seed_));
}

std::vector<ValueId> Trainer::persistent(Role role) const {
  std::vector<ValueId> found;
  for (std::int64_t i = 0; i < training_.graph.value_count(); ++i) {
    const Value& value = training_.graph.value(ValueId(i));
    if (value.role == role && !value.producer) found.push_back(ValueId(i));
  }
  std::sort(found.begin(), found.end(),
            [this](ValueId a, ValueId b) { return training_.graph.value(a).name < training_.graph.value(b).name; });
  return found;
}

double Trainer::step(const Batch& batch, double learning_rate) {
  const DType loss_dtype = training_.graph.value(training_.loss).type.dtype;
  executor_->write(training_.x, batch.x);
  executor_->write(training_.y, batch.y);
  executor_->write(training_.loss_gradient, scalar_bytes(loss_dtype, 1));
  executor_->write(training_.learning_rate, scalar_bytes(training_.graph.value(training_.learning_rate).type.dtype, learning_rate));
  const auto made = static_cast<std::uint64_t>(steps_);
  // Past 2³¹ steps the bias corrections of Adam have long been 1.
  constexpr std::uint64_t kMostSteps = std::numeric_limits<std::int32_t>::max();
  if (training_.step) executor_->write(training_.step, integer_bytes({low(std::min(made + 1, kMostSteps))}));
  if (training_.random_key) executor_->write(training_.random_key, integer_bytes({low(seed_), high(seed_), low(made), high(made)}));

  const auto begin = std::chrono::steady_clock::now();
  executor_->step();
  step_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ++steps_;
  return scalar(loss_dtype, read(training_.loss));
}

std::vector<std::byte> Trainer::read(ValueId value) const {
  std::vector<std::byte> bytes = buffer_for(training_.graph.value(value).type);
  executor_->read(value, bytes);
  return bytes;
}

std::vector<std::string> Trainer::load(const SafetensorsFile& file) {
  std::set<std::string> taken;
  for (Role role : {Role::parameter, Role::state})
    for (ValueId id : persistent(role)) {
      const Value& value = training_.graph.value(id);
      const TensorEntry* entry = file.find(value.name);
      if (!entry && role == Role::parameter) user_error("{}: has no tensor '{}', which the model needs", file.path(), value.name);
      if (!entry) continue;
      if (entry->shape != value.type.shape)
        user_error("{}: tensor '{}' has shape {}, but the model's is {}", file.path(), value.name, to_string(entry->shape),
                   to_string(value.type.shape));
      executor_->write(id, converted(file.read(*entry), value.type.dtype, fmt::format("{}: tensor '{}'", file.path(), value.name)));
      taken.insert(value.name);
    }
  if (const TensorEntry* entry = file.find(kSteps)) {
    if (entry->type != ElementType::i64 || entry->shape != Dims{1})
      user_error("{}: tensor '{}' has type {} and shape {}, expected int64 and [1]", file.path(), kSteps, name_of(entry->type),
                 to_string(entry->shape));
    std::int64_t steps = 0;
    std::memcpy(&steps, file.read(*entry).data.data(), sizeof steps);
    if (steps < 0) user_error("{}: tensor '{}' is {}, expected at least 0", file.path(), kSteps, steps);
    steps_ = steps;
    taken.insert(kSteps);
  }
  std::vector<std::string> ignored;
  for (const TensorEntry& entry : file.entries())
    if (!taken.contains(entry.name)) ignored.push_back(entry.name);
  return ignored;
}

void Trainer::save(const std::string& path) const {
  std::vector<TensorEntry> entries;
  for (Role role : {Role::parameter, Role::state})
    for (ValueId id : persistent(role)) entries.push_back(entry_of(training_.graph.value(id).name, training_.graph.value(id).type));
  entries.push_back({kSteps, ElementType::i64, {1}, 0});
  write_safetensors(path, std::move(entries), [this](const TensorEntry& entry) {
    if (entry.name != kSteps) return read(training_.graph.find_value(entry.name));
    std::vector<std::byte> bytes(sizeof steps_);
    std::memcpy(bytes.data(), &steps_, sizeof steps_);
    return bytes;
  });
}

void Trainer::save_gradients(const std::string& path, const std::vector<double>& losses) const {
  const std::string kPrefix = "grad.", kLosses = "losses";
  std::vector<TensorEntry> entries{{kLosses, ElementType::f64, {static_cast<std::int64_t>(losses.size())}, 0}};
  for (const auto& [subject, gradient] : training_.gradients)
    entries.push_back(entry_of(kPrefix + training_.graph.value(subject).name, training_.graph.value(gradient).type));
  write_safetensors(path, std::move(entries), [&](const TensorEntry& entry) {
    if (entry.name == kLosses) {
      const auto bytes = std::as_bytes(std::span(losses));
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    }
    const ValueId subject = training_.graph.find_value(entry.name.substr(kPrefix.size()));
    const auto found = std::find_if(training_.gradients.begin(), training_.gradients.end(),
                                    [subject](const auto& pair) { return pair.first == subject; });
    return read(found->second);
  });
}

std::string Trainer::sha256_of(Role role) const {
  Sha256 hash;
  for (ValueId id : persistent(role)) hash.update(read(id));
  return hash.hex_digest();
}

}  // namespace outsize
