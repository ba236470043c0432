// A budget is real memory: what a plan fits into, a process fits into that the operating system gives 160 MiB more, with data from
// files, evaluation, checkpoints and resumption; and holding everything, which takes more than that, is refused before the first
// step.
#include <random>

#include "../data/image_writers.h"
#include "../write_npz.h"
#include "limited.h"

namespace outsize {
namespace {

constexpr std::int64_t kBeside = std::int64_t{160} << 20;   // bytes that a process is given beside its budget
constexpr std::int64_t kOutside = std::int64_t{128} << 20;  // bytes that may lie outside the plan
constexpr int kClasses = 10, kTokens = 1000;

struct Network {
  const char* name;
  const char* model;  // with its flags
  int batch;
  const char* data;  // flags of the data that make_data() writes
};
// Real networks, narrow or of small images, whose activations are most of what they hold: some 420 MiB.
const Network kNetworks[]{
    {"resnet18", "resnet18 --width 0.25 --image 512 --batch 18", 18, "--data photos --augment flip"},
    {"convnext", "convnext-tiny --width 0.5 --image 128 --batch 21", 21, "--data train.npz --eval-data eval.npz"},
    {"bert", "bert-base --width 0.25 --seq 128 --batch 20 --classes 1000", 20, "--data train.npz --eval-data eval.npz"},
};

const std::string kSpill = " --spill sp";

struct Planner {
  const char* name;
  const char* more = "";        // flags
  const char* instead_of = "";  // a planner that refuses this budget of this network by its definition
};
struct Cell {
  const Network* network;
  int percent;
  Planner planner;

  friend void PrintTo(const Cell& cell, std::ostream* stream) {
    *stream << cell.network->name << " in " << cell.percent << " % by " << cell.planner.name;
  }
};

// Recomputation, tiles of two kinds, and waiting on disk.
std::vector<Cell> cells() {
  const char* const spill = kSpill.c_str();
  std::vector<Cell> all;
  for (const Network& network : kNetworks)
    for (const int percent : {60, 35}) {
      const std::string name = network.name;
      // 35 % of it are less than what one op with its neighbours takes at the largest images, which nothing but tiles makes
      // smaller.
      if (name == "resnet18" && percent == 35)
        all.push_back({&network, percent, {"tsplit", spill, "checkpoint"}});
      else
        all.push_back({&network, percent, {"checkpoint"}});
      all.push_back({&network, percent, {"2ps-h", spill}});
      // SFT cuts images through convolutions alone: there is nothing that it could cut in these.
      if (name == "convnext")
        all.push_back({&network, percent, {"vdnn-all", spill, "sft"}});
      else if (name == "bert")
        all.push_back({&network, percent, {"superneurons", spill, "sft"}});
      else
        all.push_back({&network, percent, {"sft", spill}});
      all.push_back({&network, percent, {"greedy", spill}});
    }
  return all;
}

Array random_integers(ElementType type, const Dims& shape, int limit, std::uint32_t seed) {
  Array array = make_array(type, shape);
  std::mt19937 random(seed);
  const auto width = static_cast<std::size_t>(size_of(type));
  for (std::size_t at = 0; at < array.data.size(); at += width) {
    const std::uint64_t number = random() % static_cast<std::uint32_t>(limit);
    std::memcpy(array.data.data() + at, &number, width);
  }
  return array;
}

class Limits : public Limited {
 protected:
  Limits() { std::filesystem::create_directories(path("sp")); }

  // Two batches to train on and one, less a sample, to evaluate on.
  void make_data(const Network& network) const {
    const std::string name = network.name;
    if (name == "resnet18") return make_photos(network);
    for (const auto& [file, samples] : {std::pair("train.npz", 2 * network.batch), std::pair("eval.npz", network.batch - 1)}) {
      const bool tokens = name == "bert";
      const Array x = tokens ? random_integers(ElementType::i64, {samples, 128}, kTokens, 1)
                             : random_integers(ElementType::u8, {samples, 3, 128, 128}, 256, 1);
      const Array y = tokens ? random_integers(ElementType::i64, {samples, 128}, kTokens, 2)
                             : random_integers(ElementType::i64, {samples}, kClasses, 2);
      write_npz(path(file), {{"x", x}, {"y", y}});
    }
  }
  std::int64_t keep_bytes(const Network& network) const {
    return json(fmt::format("plan {} {}", network.model, classes(network)))["keep_peak_bytes"];
  }
  // What a folder's names, or the labels of a file, say of the classes; `plan` sees neither.
  static std::string classes(const Network& network) {
    return std::string(network.name) == "bert" ? "" : fmt::format("--classes {}", kClasses);
  }
  static std::string training(const Network& network) {
    return fmt::format("train {} {} {} --advice 0 --checkpoint-every 1 --checkpoint ck", network.model, classes(network),
                       network.data);
  }

  // Trains, evaluates, writes checkpoints and goes on from the last of them; `run` is told what the process may take.
  template <class Run>
  void train_and_resume(const Cell& cell, Run&& run) const {
    const Network& network = *cell.network;
    make_data(network);
    const std::int64_t keep = keep_bytes(network), budget = keep * cell.percent / 100, limit = budget + kBeside;
    ASSERT_GT(keep, limit) << "holding everything must exceed the limit";
    const std::string line = fmt::format("{} --planner {} --memory {}{} --json --steps ", training(network), cell.planner.name,
                                         budget, cell.planner.more);
    std::int64_t made = 0;
    for (const std::string more : {"2", "3 --resume"}) {
      const Result result = run(limit, line + more);
      ASSERT_EQ(result.status, 0) << result.err;
      const Json object = Json::parse(result.out);
      made += object["steps"].get<std::int64_t>();
      EXPECT_EQ(object["steps_made"], made);
      EXPECT_EQ(object["eval_samples"], network.batch - 1);
      EXPECT_TRUE(object["eval_loss"].is_number());
      EXPECT_EQ(object["budget_bytes"], budget);
      EXPECT_LE(object["measured_peak_bytes"], budget);
      EXPECT_EQ(object["measured_peak_bytes"], object["predicted_peak_bytes"]);
      EXPECT_LE(object["outside_bytes"], kOutside);
      EXPECT_LE(object["process_peak_bytes"], limit);
      EXPECT_GT(object["swapped_bytes"].get<std::int64_t>() + object["recomputed_ops"].get<std::int64_t>() +
                    object["tiles"].get<std::int64_t>(),
                0);
    }
    EXPECT_EQ(made, 3);
  }

 private:
  void make_photos(const Network& network) const {
    const auto make = [&](const char* part, int count) {
      for (int i = 0; i < count; ++i) {
        const std::string folder = fmt::format("photos/{}/{}", part, i % kClasses);
        std::filesystem::create_directories(path(folder));
        write_png(path(fmt::format("{}/{}.png", folder, i)), Pixels::make(128, 96, 3, [i](int row, int column, int channel) {
                    return 9 * row + 5 * column * channel + 40 * i;
                  }));
      }
    };
    make("train", 2 * network.batch);
    make("test", network.batch - 1);
  }
};

class LimitsTrain : public Limits, public testing::WithParamInterface<Cell> {};

TEST_P(LimitsTrain, InItsBudgetAndALittleMore) {
  train_and_resume(GetParam(), [this](std::int64_t limit, const std::string& line) { return run_within(limit, line); });
  // A planner that stands for another does so because that one refuses.
  const auto& [network, percent, planner] = GetParam();
  if (*planner.instead_of == '\0') return;
  const Result refused = run(fmt::format("plan {} {} --planner {} --memory {}%{} --advice 0", network->model, classes(*network),
                                         planner.instead_of, percent, kSpill));
  EXPECT_EQ(refused.status, 1) << refused.err;
}

std::string name_of_cell(const testing::TestParamInfo<Cell>& info) {
  std::string name = fmt::format("{}_{}_{}", info.param.network->name, info.param.planner.name, info.param.percent);
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, LimitsTrain, testing::ValuesIn(cells()), name_of_cell);

class LimitsKeep : public Limits, public testing::WithParamInterface<Network> {};

// By its own budget, which is what the limit leaves, and where it is told to hold everything regardless.
TEST_P(LimitsKeep, IsRefusedBeforeTheFirstStep) {
  const Network& network = GetParam();
  make_data(network);
  const std::int64_t keep = keep_bytes(network);
  for (const int percent : {60, 35}) {
    const std::int64_t limit = keep * percent / 100 + kBeside;
    const std::string line = training(network) + " --steps 2 --planner keep";
    const Result refused = run_within(limit, line);
    EXPECT_EQ(refused.status, 1) << refused.err;
    EXPECT_NE(refused.err.find("planner keep needs "), std::string::npos) << refused.err;
    const Result forced = run_within(limit, line + " --memory 100%");
    EXPECT_EQ(forced.status, 2) << forced.err;
    EXPECT_NE(forced.err.find("cannot get "), std::string::npos) << forced.err;
    EXPECT_NE(forced.err.find("of device memory: "), std::string::npos) << forced.err;
    EXPECT_FALSE(std::filesystem::exists(path("ck"))) << "checkpoints are written from the first step on";
  }
}

// Weights and optimizer state are most of what it holds: they wait on disk, and come for the ops that read them.
TEST_F(Limits, WeightsThatDoNotFitTrainAsWhatFits) {
  const std::string network = "gpt2 --width 0.5 --batch 1 --seq 64";
  const std::string line = "train " + network + " --optimizer adamw --lr 1e-4 --steps 2 --advice 0 --json --planner ";
  const std::int64_t keep = json("plan " + network + " --optimizer adamw")["keep_peak_bytes"];
  const Json whole = json(line + "keep");
  for (const int percent : {40, 25}) {
    const std::int64_t budget = keep * percent / 100, limit = budget + kBeside;
    ASSERT_GT(keep, limit) << "holding everything must exceed the limit";
    const Result result = run_within(limit, fmt::format("{}stream --memory {}{}", line, budget, kSpill));
    ASSERT_EQ(result.status, 0) << result.err;
    const Json object = Json::parse(result.out);
    EXPECT_EQ(object["params_sha256"], whole["params_sha256"]) << percent;
    EXPECT_EQ(object["states_sha256"], whole["states_sha256"]) << percent;
    EXPECT_LE(object["measured_peak_bytes"], budget);
    EXPECT_EQ(object["measured_peak_bytes"], object["predicted_peak_bytes"]);
    EXPECT_LE(object["outside_bytes"], kOutside);
    EXPECT_LE(object["process_peak_bytes"], limit);
  }
}

std::string name_of_network(const testing::TestParamInfo<Network>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, LimitsKeep, testing::ValuesIn(kNetworks), name_of_network);

// A group of processes of its own with a limit on its memory, below the group that this process is in.
class Group {
 public:
  Group() {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const std::size_t first = line.find(':'), second = line.find(':', first + 1);
      const std::string controllers = line.substr(first + 1, second - first - 1), place = line.substr(second + 1);
      if (controllers == "memory") make("/sys/fs/cgroup/memory" + place, "memory.limit_in_bytes");
      if (controllers.empty()) make("/sys/fs/cgroup" + place, "memory.max");
    }
  }
  ~Group() {
    std::error_code ignored;
    if (there()) std::filesystem::remove(folder_, ignored);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool there() const { return !folder_.empty(); }
  // Lines for a shell that enters the group.
  std::string enter(std::int64_t bytes) const {
    return fmt::format("echo {} >{}/{} || exit 99\necho $$ >{}/cgroup.procs || exit 99", bytes, folder_, limit_, folder_);
  }

 private:
  void make(const std::string& parent, const char* limit) {
    const std::string folder = fmt::format("{}/outsize_test_{}", parent, ::getpid());
    std::error_code error;
    if (there() || !std::filesystem::create_directory(folder, error)) return;
    // Where the controller is not given to groups below, the folder has no such file.
    if (!std::ofstream(folder + "/" + limit)) {
      std::filesystem::remove(folder, error);
      return;
    }
    folder_ = folder;
    limit_ = limit;
  }

  std::string folder_, limit_;
};

class LimitsGroup : public Limits, public testing::WithParamInterface<Cell> {};

// The pages of files count there too, until they are wanted for something else.
TEST_P(LimitsGroup, TrainsInAGroupWithALimit) {
  const Group group;
  if (!group.there()) GTEST_SKIP() << "no group of processes with a limit on its memory can be made here";
  train_and_resume(GetParam(), [&](std::int64_t limit, const std::string& line) { return run_after(group.enter(limit), line); });
}

INSTANTIATE_TEST_SUITE_P(All, LimitsGroup,
                         testing::Values(Cell{&kNetworks[0], 35, {"greedy", kSpill.c_str()}}, Cell{&kNetworks[1], 35, {"2ps-h"}},
                                         Cell{&kNetworks[2], 35, {"checkpoint"}}),
                         name_of_cell);

}  // namespace
}  // namespace outsize
