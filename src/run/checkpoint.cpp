#include "run/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/say.h"
#include "base/text.h"
#include "data/file.h"
#include "data/json.h"

namespace outsize {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFormat = 4;
constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::size_t kKept = 2;

std::string stem_of(std::int64_t step) { return fmt::format("{}{:09}", kPrefix, step); }

// The steps of all descriptions in a directory, ascending.
std::vector<std::int64_t> steps_in(const std::string& directory) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(".json")) continue;
    std::int64_t step = 0;
    if (parse_integer(std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - 5), step)) steps.push_back(step);
  }
  if (error) user_error("{}: cannot be read: {}", directory, error.message());
  std::sort(steps.begin(), steps.end());
  return steps;
}

// Removes all but the newest checkpoints, and what a killed run left half written.
void remove_others(const std::string& directory) {
  std::vector<std::int64_t> kept = steps_in(directory);
  if (kept.size() > kKept) kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(kKept));
  std::vector<fs::path> gone;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const bool keep = std::any_of(kept.begin(), kept.end(), [&](std::int64_t step) {
      return name == stem_of(step) + ".json" || name == stem_of(step) + ".safetensors";
    });
    if (!keep) gone.push_back(entry.path());
  }
  for (const fs::path& path : gone) fs::remove(path, error);
}

// Whether it was not there before.
bool make_directory(const std::string& directory) {
  std::error_code error;
  const bool made = fs::create_directories(directory, error);
  if (error) user_error("{}: cannot be made: {}", directory, error.message());
  return made;
}

// Whether the open file is still the one of that name: the run that locked it before may have removed it since it was opened.
bool is_at(int file, const std::string& path) {
  struct stat opened {
  }, named{};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

// " (process 1234)" by what the run that holds a lock has written into it, or nothing.
std::string holder_of(int file) {
  char text[32];
  const ::ssize_t got = ::pread(file, text, sizeof text, 0);
  std::int64_t process = 0;
  const std::string_view line(text, static_cast<std::size_t>(std::max<::ssize_t>(got, 0)));
  if (!parse_integer(line.substr(0, line.find('\n')), process)) return {};
  return fmt::format(" (process {})", process);
}

nlohmann::ordered_json object_of(const auto& pairs) {
  auto object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : pairs) object[name] = value;
  return object;
}

void write_text(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

// Reads the members of a checkpoint's description, a JSON object. Every failure is a UserError naming the file and the member.
class Description {
 public:
  explicit Description(const std::string& path) : path_(path), json_(parse_json(read_text(path), what())) {
    if (!json_.is_object()) user_error("{}: expected a JSON object", what());
  }

  const std::string& text(const char* key) const {
    const nlohmann::json* found = find(key);
    if (!found || !found->is_string()) user_error("{}: expected a string '{}'", what(), key);
    return found->get_ref<const std::string&>();
  }
  std::uint64_t count(const char* key) const {
    const nlohmann::json* found = find(key);
    if (!found || !found->is_number_unsigned()) user_error("{}: expected a whole number '{}'", what(), key);
    return found->get<std::uint64_t>();
  }
  // One that is counted in 63 bits.
  std::int64_t size(const char* key) const {
    const std::uint64_t number = count(key);
    if (!std::in_range<std::int64_t>(number)) user_error("{}: '{}' is {}, which is too large", what(), key, number);
    return static_cast<std::int64_t>(number);
  }
  // The same; a description that has none of it is older than it.
  std::int64_t size(const char* key, std::int64_t otherwise) const { return find(key) ? size(key) : otherwise; }
  // null stands for `otherwise`, since JSON has no infinity.
  double number(const char* key, double otherwise) const {
    const nlohmann::json* found = find(key);
    if (found && found->is_null()) return otherwise;
    if (!found || !found->is_number()) user_error("{}: expected a number '{}'", what(), key);
    return found->get<double>();
  }
  RunState::Settings pairs(const char* key) const {
    const nlohmann::json* found = find(key);
    RunState::Settings settings;
    if (!found || !found->is_object()) user_error("{}: expected an object '{}'", what(), key);
    for (const auto& [name, value] : found->items()) {
      if (!value.is_string()) user_error("{}: expected a string '{}' in '{}'", what(), name, key);
      settings.emplace_back(name, value.get<std::string>());
    }
    return settings;
  }
  std::vector<std::string> texts(const char* key) const {
    const nlohmann::json* found = find(key);
    const auto is_text = [](const nlohmann::json& entry) { return entry.is_string(); };
    if (!found || !found->is_array() || !std::all_of(found->begin(), found->end(), is_text))
      user_error("{}: expected a list of strings '{}'", what(), key);
    return found->get<std::vector<std::string>>();
  }

 private:
  std::string what() const { return fmt::format("{}: is not the description of a checkpoint", path_); }
  const nlohmann::json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }

  std::string path_;
  nlohmann::json json_;
};

Checkpoint read_checkpoint(const std::string& directory, std::int64_t step) {
  const std::string path = (fs::path(directory) / (stem_of(step) + ".json")).string();
  const Description description(path);
  if (const std::uint64_t format = description.count("format"); format != kFormat)
    user_error("{}: has format {}, expected {}", path, format, kFormat);
  Checkpoint found;
  RunState& state = found.state;
  state.model = description.text("model");
  state.settings = description.pairs("settings");
  state.backend = description.text("backend");
  state.seed = description.count("seed");
  state.step = description.size("step");
  state.begun = description.size("begun");
  state.threads = description.size("threads");
  state.request = description.pairs("request");
  for (auto& [program, plan] : description.pairs("plans")) state.plans.emplace(program, plan);
  state.kernels = description.texts("kernels");
  state.best_loss = description.number("best_loss", std::numeric_limits<double>::infinity());
  state.best_step = description.size("best_step");
  state.stale = description.size("stale");
  state.log_bytes = description.size("log_bytes", std::numeric_limits<std::int64_t>::max());
  const fs::path name = description.text("weights");
  // Of this directory: a description must not lead to files elsewhere.
  if (name.empty() || name != name.filename())
    user_error("{}: 'weights' is {}, expected a file's name", path, in_quotes(name.string()));
  found.weights = (fs::path(directory) / name).string();
  const std::int64_t weights_bytes = description.size("weights_bytes");
  const InputFile weights(found.weights);
  if (weights.size() != weights_bytes)
    user_error("{}: has {} bytes, but {} says {}", found.weights, weights.size(), path, weights_bytes);
  if (checksum_of(weights) != description.count("weights_crc32"))
    user_error("{}: is damaged: its checksum is not that of {}", found.weights, path);
  return found;
}

}  // namespace

CheckpointLock::CheckpointLock(const std::string& directory)
    : directory_(directory), path_((fs::path(directory) / "lock").string()) {
  // A run that was killed takes a moment to end.
  constexpr std::chrono::milliseconds kPatience(3000), kPause(20);
  for (auto waited = std::chrono::milliseconds(0);; waited += kPause) {
    const bool last = waited >= kPatience;
    made_directory_ = make_directory(directory) || made_directory_;
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    const int opened = errno;
    // A run that has just ended may have removed the directory, if it had made it.
    if (file_ < 0 && (opened != ENOENT || last)) user_error("{}: cannot be written: {}", path_, std::strerror(opened));
    if (file_ >= 0) {
      const int locked = ::flock(file_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
      if (locked == 0 && is_at(file_, path_)) break;
      const std::string holder = locked != 0 ? holder_of(file_) : std::string();
      if (locked != 0 && locked != EWOULDBLOCK) {
        say("{}: cannot be locked: {}; see that no other run uses this folder of checkpoints", path_, std::strerror(locked));
        return;
      }
      ::close(file_);
      if (last)
        user_error("{}: another run{} is using this folder of checkpoints; wait until it has ended, or give another folder",
                   directory, holder);
    }
    std::this_thread::sleep_for(kPause);
  }
  const std::string process = fmt::format("{}\n", ::getpid());
  // On a full disk a refusal names no process, and that is all.
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, process.data(), process.size(), 0) < 0) return;
}

CheckpointLock::~CheckpointLock() {
  if (is_at(file_, path_)) ::unlink(path_.c_str());
  if (made_directory_) ::rmdir(directory_.c_str());
  ::close(file_);
}

void write_checkpoint(const std::string& directory, const RunState& state, const Trainer& trainer) {
  make_directory(directory);
  const std::string stem = stem_of(state.step);
  const std::string weights = (fs::path(directory) / (stem + ".safetensors")).string();
  trainer.save(weights);
  const InputFile written(weights);
  using Json = nlohmann::ordered_json;
  const Json json{{"format", kFormat},
                  {"model", state.model},
                  {"settings", object_of(state.settings)},
                  {"backend", state.backend},
                  {"seed", state.seed},
                  {"step", state.step},
                  {"begun", state.begun},
                  {"threads", state.threads},
                  {"best_loss", std::isfinite(state.best_loss) ? Json(state.best_loss) : Json()},
                  {"best_step", state.best_step},
                  {"stale", state.stale},
                  {"log_bytes", state.log_bytes},
                  {"weights", stem + ".safetensors"},
                  {"weights_bytes", written.size()},
                  {"weights_crc32", checksum_of(written)},
                  {"kernels", state.kernels},
                  {"request", object_of(state.request)},
                  {"plans", object_of(state.plans)}};
  write_text((fs::path(directory) / (stem + ".json")).string(), json.dump(1) + "\n");

  remove_others(directory);
}

void save_best(const std::string& directory, const Trainer& trainer) {
  make_directory(directory);
  trainer.save((fs::path(directory) / "best.safetensors").string());
}

bool has_checkpoints(const std::string& directory) { return fs::is_directory(directory) && !steps_in(directory).empty(); }

Checkpoint find_checkpoint(const std::string& directory) {
  if (!fs::is_directory(directory)) user_error("{}: is not a directory of checkpoints", directory);
  std::string wrong;
  const std::vector<std::int64_t> steps = steps_in(directory);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      Checkpoint found = read_checkpoint(directory, *step);
      found.passed_over = wrong.empty() ? wrong : wrong.substr(2);
      return found;
    } catch (const UserError& error) {
      wrong += fmt::format("; {}", error.what());
    }
  }
  user_error("{}: holds no whole checkpoint{}", directory, wrong);
}

bool same_kernels(std::vector<std::string> a, std::vector<std::string> b) {
  for (std::vector<std::string>* table : {&a, &b}) {
    std::sort(table->begin(), table->end());
    table->erase(std::unique(table->begin(), table->end()), table->end());
  }
  return a == b;
}

std::string difference(const RunState::Settings& then, const RunState::Settings& now) {
  for (const auto& [name, value] : now) {
    const auto found = std::find_if(then.begin(), then.end(), [&](const auto& pair) { return pair.first == name; });
    const std::string was = found == then.end() ? "not given" : found->second;
    if (was != value) return fmt::format("{} is {}, but this run's is {}", name, was, value);
  }
  return {};
}

void expect_same_run(const RunState& then, const RunState& now, const std::string& directory) {
  const auto all = [](const RunState& state) {
    RunState::Settings settings{{"model", state.model}, {"backend", state.backend}, {"seed", std::to_string(state.seed)}};
    settings.insert(settings.end(), state.settings.begin(), state.settings.end());
    return settings;
  };
  if (const std::string found = difference(all(then), all(now)); !found.empty())
    user_error("{}: the checkpoint's {}", directory, found);
}

std::vector<std::string> kernel_table(const Graph& graph, const Program& program, Backend& backend) {
  std::vector<std::string> table;
  for (const Instruction& instruction : program.instructions)
    if (instruction.action == Action::kernel)
      table.push_back(fmt::format(
          "{}: {}", graph.op(instruction.op).name,
          backend.kernel(call_of(graph, program, instruction), instruction.lane, program.kernel_of(instruction.op))->name()));
  return table;
}

}  // namespace outsize
