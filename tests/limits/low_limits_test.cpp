// What a process cannot have it says, whatever it lacks: no crash, no silence and no words of a library, at whichever step of the
// command the system gives nothing more.
#include "../write_npz.h"
#include "limited.h"

namespace outsize {
namespace {

// A network whose arenas are small beside the limits.
const std::string kTraining =
    "train resnet18 --width 0.25 --image 64 --batch 4 --classes 10 --steps 2 --memory 12MiB --advice 0 --profile roofline";

class LowLimits : public Limited {
 protected:
  LowLimits() {
    Array y = make_array(ElementType::i64, {12});
    write_npz(path("d.npz"), {{"x", make_array(ElementType::u8, {12, 3, 64, 64})}, {"y", y}});
  }

  // The status of the command under the limit; it must be 0, 1 or 2, with a sentence of ours unless it is 0. −1 where the system
  // cannot even load the program.
  int status_of(const std::string& limit, const std::string& arguments) const {
    std::filesystem::remove_all(path("ck"));
    const std::string limits = "ulimit -c 0\n" + limit;
    if (run_after(limits, "version").status != 0) return -1;
    const Result result = run_after(limits, arguments);
    EXPECT_TRUE(result.status == 0 || result.status == 1 || result.status == 2)
        << limit << ": status " << result.status << " of " << arguments << ": " << result.err;
    EXPECT_EQ(result.err.find("internal error"), std::string::npos) << limit << ": " << arguments << ": " << result.err;
    if (result.status == 0) return 0;
    const std::size_t line = result.err.rfind('\n', result.err.size() - 2) + 1;
    EXPECT_TRUE(result.err.substr(line).starts_with("outsize: ")) << limit << ": " << arguments << ": " << result.err;
    // A run that is refused has made no step.
    EXPECT_EQ(result.err.find("step 1/"), std::string::npos) << limit << ": " << arguments << ": " << result.err;
    EXPECT_FALSE(std::filesystem::exists(path("ck/checkpoint-000000001.json"))) << limit << ": " << arguments << ": " << result.err;
    return result.status;
  }
  // Under each of these limits on `flag` of ulimit, in KiB for memory; the last must do.
  void sweep(const std::string& flag, std::initializer_list<std::int64_t> limits, const std::string& arguments) const {
    int status = -1, refused = 0;
    for (const std::int64_t limit : limits) {
      status = status_of(fmt::format("ulimit {} {}", flag, limit), arguments);
      refused += status > 0;
    }
    EXPECT_EQ(status, 0) << arguments;
    EXPECT_GT(refused, 0) << arguments << ": no limit was low enough";
  }
};

constexpr std::int64_t operator""_MiB(unsigned long long number) { return static_cast<std::int64_t>(number) << 10; }

TEST_F(LowLimits, OnDataOfTraining) {
  sweep("-d", {4_MiB, 16_MiB, 24_MiB, 36_MiB, 60_MiB, 92_MiB, 100_MiB, 104_MiB, 172_MiB}, kTraining);
}

TEST_F(LowLimits, OnDataOfTrainingFromFilesWithCheckpoints) {
  sweep("-d", {4_MiB, 20_MiB, 40_MiB, 80_MiB, 96_MiB, 104_MiB, 172_MiB},
        kTraining + " --data d.npz --eval-data d.npz --eval-every 1 --checkpoint ck --checkpoint-every 1");
}

TEST_F(LowLimits, OnDataOfPlanning) {
  const std::string network = " resnet18 --width 0.25 --image 64 --profile roofline ";
  sweep("-d", {4_MiB, 12_MiB, 24_MiB, 64_MiB}, "plan" + network + "--batch 16 --memory 80% --planner checkpoint");
  sweep("-d", {4_MiB, 12_MiB, 24_MiB, 64_MiB}, "compare" + network + "--batch 16 --memory 80% --planners keep,checkpoint");
  sweep("-d", {4_MiB, 12_MiB, 24_MiB, 64_MiB}, "fit" + network + "--memory 40MiB --planners keep");
}

// Commands that make no kernel need next to nothing.
TEST_F(LowLimits, OnDataOfListings) {
  for (const std::string command : {"models", "planners", "ops conv2d", "--help", "train --help"})
    EXPECT_EQ(status_of("ulimit -d 8192", command), 0) << command;
}

// Stacks and heaps of threads take addresses that they do not use.
TEST_F(LowLimits, OnAddresses) {
  sweep("-v", {140_MiB, 160_MiB, 180_MiB, 200_MiB, 220_MiB, 240_MiB, 260_MiB, 280_MiB, 300_MiB, 600_MiB},
        kTraining + " --threads 8 --data d.npz");
}

TEST_F(LowLimits, OnOpenFiles) {
  for (const int files : {4, 5, 6, 8, 64}) {
    const int status = status_of(fmt::format("ulimit -n {}", files), kTraining + " --data d.npz --checkpoint ck");
    if (files == 64) {
      EXPECT_EQ(status, 0);
    }
  }
}

// Root may have any number of threads, so that a command that root runs becomes one of nobody first.
TEST_F(LowLimits, OnThreads) {
  const std::string nobody =
      "[ $(id -u) != 0 ] || exec setpriv --reuid=65534 --regid=65534 --clear-groups sh \"$0\"\nprlimit --pid $$ --nproc=";
  if (run_after(nobody + "1", "version").status != 0) GTEST_SKIP() << "the program cannot be run by another user here";
  const Result refused = run_after(nobody + "1", kTraining + " --threads 4");
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.err.find("outsize: cannot start a thread for computing: "), std::string::npos) << refused.err;
  EXPECT_EQ(run_after(nobody + "1000", kTraining + " --threads 4").status, 0) << text("stderr");
}

}  // namespace
}  // namespace outsize
