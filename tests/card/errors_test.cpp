// What a user is told who has no card, an old driver, a card whose memory others hold, or one that is gone in mid-run: the command
// line on a card that the host acts (stand_in.h).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "../cli/cli.h"

namespace outsize {
namespace {

const std::string kNet = "resnet18 --width 0.0625 --image 32 --classes 5 --threads 1 --profile roofline ";
const std::string kTrain = "train --batch 2 " + kNet;

class CardErrors : public Cli {
 protected:
  // Where what is measured of the card is kept from one command to the next.
  static std::string cache() {
    return (std::filesystem::temp_directory_path() / fmt::format("outsize_stand_in_{}", ::getpid())).string();
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(cache()); }
  // The command with such a card.
  Result on(const std::string& card, const std::string& arguments) const {
    const std::string command =
        fmt::format("cd '{}' && XDG_CACHE_HOME='{}' OUTSIZE_STAND_IN='{}' timeout 200 '" OUTSIZE_STAND_IN "' {} >stdout 2>stderr",
                    path(""), cache(), card, arguments);
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), text("stdout"), text("stderr")};
  }
  // A number of works in the midst of a run.
  std::string half_of_works(const std::string& arguments) const {
    const Result result = on("report=1", arguments);
    const std::size_t at = result.err.find("stand-in: ");
    EXPECT_NE(at, std::string::npos) << result.err;
    return at == std::string::npos ? "0" : std::to_string(std::stoll(result.err.substr(at + 10)) * 3 / 5);
  }
  void expect_error(const std::string& card, const std::string& arguments, const std::string& message) const {
    const Result result = on(card, arguments);
    EXPECT_EQ(result.status, 2) << result.out << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 2) << result.err;
  }
};

TEST_F(CardErrors, ACardIsTheDefaultWhereOneIs) {
  const Result result = on("", kTrain + "--steps 1 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out)["backend"], "cuda");
  EXPECT_EQ(Json::parse(on("cards=0", kTrain + "--steps 1 --json").out)["backend"], "cpu");
}

TEST_F(CardErrors, NoCard) {
  expect_error("cards=0", kTrain + "--backend cuda", "--backend cuda: the driver finds no NVIDIA card that this process may use: ");
  expect_error("driver=0", kTrain + "--backend cuda",
               "--backend cuda: this machine has no driver for NVIDIA cards; --backend cpu runs here");
  expect_error("cards=0", "selfcheck", "--backend cuda: the driver finds no NVIDIA card");
}

TEST_F(CardErrors, ADriverThatIsTooOld) {
  expect_error("driver=11040", kTrain + "--backend cuda",
               "--backend cuda: the driver here is for CUDA 11.4, this build needs one for ");
  EXPECT_NE(text("stderr").find("; install a newer driver"), std::string::npos);
}

TEST_F(CardErrors, MemoryThatOthersHold) {
  // 1 MiB is left.
  expect_error("memory=1073741824,others=548405248",
               "train --batch 16 " + kNet + "--backend cuda --memory 64MiB --steps 1 --planner keep", "of the card's memory: ");
  EXPECT_NE(text("stderr").find("; give a smaller --memory, or end what else uses it"), std::string::npos);
}

TEST_F(CardErrors, HostMemoryThatCannotBePinned) {
  expect_error("pinnable=30000", kTrain + "--backend cuda --memory 64MiB --host-memory 64MiB --planner vdnn-all --steps 1",
               "cannot pin ");
  EXPECT_NE(text("stderr").find("give a smaller --host-memory"), std::string::npos);
}

// What is free is what a run takes that is not told how much: with room left for the driver's own.
TEST_F(CardErrors, WithoutABudgetARunTakesWhatIsFree) {
  const Result result = on("memory=1073741824", kTrain + "--backend cuda --steps 1 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  const Json object = Json::parse(result.out);
  EXPECT_EQ(object["budget_bytes"].get<std::int64_t>(), 1073741824 - (std::int64_t{500} << 20) - (std::int64_t{192} << 20));
  // The driver's own, and what is left of a page behind the arena.
  EXPECT_GE(object["device_outside_bytes"].get<std::int64_t>(), std::int64_t{500} << 20);
  EXPECT_LE(object["device_outside_bytes"].get<std::int64_t>(), std::int64_t{502} << 20);
}

// A card that is gone in mid-run: a sentence, status 2, and the last checkpoint goes on to the same bits.
TEST_F(CardErrors, ACardThatFallsOff) {
  for (const std::string planner :
       {"--planner keep", "--planner vdnn-all --host-memory 64MiB", "--planner 2ps-h:rows=4,stream=all --host-memory 64MiB",
        "--planner vdnn-all --host-memory 16KiB --spill ."}) {
    const std::string steps = kTrain + "--backend cuda --memory 64MiB --precision f32 --lr 0.001 --steps 6 --json " + planner;
    const Result whole = on("", steps);
    ASSERT_EQ(whole.status, 0) << whole.err;
    std::filesystem::remove_all(path("kept"));
    const Result broken = on("fails_at=" + half_of_works(steps), steps + " --checkpoint kept --checkpoint-every 1");
    EXPECT_EQ(broken.status, 2) << broken.out;
    EXPECT_NE(broken.err.find("the card failed while "), std::string::npos) << broken.err;
    EXPECT_NE(broken.err.find("; a run goes on from its last checkpoint with --resume"), std::string::npos) << broken.err;
    const Result resumed = on("", steps + " --checkpoint kept --resume");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(Json::parse(resumed.out)["params_sha256"], Json::parse(whole.out)["params_sha256"]) << planner;
    EXPECT_LT(Json::parse(resumed.out)["losses"].size(), 6U) << planner;
  }
}

TEST_F(CardErrors, SelfcheckAndDevices) {
  // How fast a link is that is acted too says nothing.
  const Json check = Json::parse(on("seed=5", "selfcheck --json").out);
  ASSERT_EQ(check["parts"].size(), 8U);
  for (const Json& part : check["parts"]) EXPECT_TRUE(part["well"] || part["name"] == "link") << part;
  const Json devices = Json::parse(on("", "devices --json").out);
  EXPECT_EQ(devices["machine"]["card"]["name"], "stand-in card");
  EXPECT_GT(devices["machine"]["card"]["link_out"].get<double>(), 0);
}

// What comes back from lower tiers is compared with what went there, though the card is still at it when a call returns.
TEST_F(CardErrors, SpilledValuesAreChecked) {
  for (const std::string plan : {"--planner vdnn-all --host-memory 64MiB", "--planner 2ps-h:rows=4,stream=all --host-memory 64MiB",
                                 "--planner vdnn-all --host-memory 16KiB --spill ."}) {
    const std::string command = kTrain + "--backend cuda --memory 64MiB --steps 2 --json " + plan;
    const Result checked = on("seed=3", command + " --check-spill");
    ASSERT_EQ(checked.status, 0) << checked.err;
    EXPECT_EQ(Json::parse(checked.out)["params_sha256"], Json::parse(on("", command).out)["params_sha256"]) << plan;
  }
}

// Rows may be further apart than one copy of the driver takes: 2 GiB on cards.
TEST_F(CardErrors, CopiesOfRowsThatAreFarApart) {
  const std::string command =
      kTrain + "--backend cuda --memory 64MiB --steps 2 --json --planner 2ps-h:rows=4,stream=all --host-memory 64MiB";
  const Result near = on("", command), far = on("pitch=512", command);
  ASSERT_EQ(near.status, 0) << near.err;
  ASSERT_EQ(far.status, 0) << far.err;
  EXPECT_EQ(Json::parse(far.out)["params_sha256"], Json::parse(near.out)["params_sha256"]);
}

// Streams that pause at random give one hash: whatever waits for something does wait.
TEST_F(CardErrors, NoRace) {
  for (const std::string plan : {"--planner vdnn-all --host-memory 64MiB", "--planner 2ps-h:rows=4,stream=all --host-memory 64MiB",
                                 "--planner vdnn-all --host-memory 16KiB --spill ."}) {
    std::set<std::string> hashes;
    for (int seed = 1; seed <= 5; ++seed) {
      const Result result = on("seed=" + std::to_string(seed), kTrain + "--backend cuda --memory 64MiB --steps 2 --json " + plan);
      ASSERT_EQ(result.status, 0) << result.err;
      const Json object = Json::parse(result.out);
      hashes.insert(object["params_sha256"].get<std::string>());
      EXPECT_EQ(object["measured_peak_bytes"], object["predicted_peak_bytes"]);
    }
    EXPECT_EQ(hashes.size(), 1U) << plan;
  }
}

}  // namespace
}  // namespace outsize
