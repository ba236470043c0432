// The lower tiers and what may happen to them: the command ends with a message and a status, the last checkpoint is whole, and the
// run goes on from it as if nothing had been.
#include "base/bytes.h"
#include "cli.h"

namespace outsize {
namespace {

// Half of what leaves the device fits into so much host memory; the rest goes to disk.
const std::string kSpilling = "train " + kModel + " --planner vdnn-all --host-memory 140KiB --spill sp";

class Spill : public Cli {
 protected:
  Spill() { std::filesystem::create_directories(path("sp")); }

  // Runs `script`, in which $outsize is the command.
  int shell(const std::string& script) const {
    write("script", "outsize='" OUTSIZE_PROGRAM "'\n" + script);
    return WEXITSTATUS(std::system(("cd '" + path(".") + "' && sh script >stdout 2>stderr").c_str()));
  }
  // Runs `arguments` in the background, does `harm` to the file $file again and again from the third step on, and waits for the
  // end. The status is that of the run, what it says its standard error.
  Result harmed(const std::string& arguments, const std::string& harm) const {
    const int status = shell("$outsize " + arguments + R"( --steps 1000000 --checkpoint d --checkpoint-every 1 >out 2>err &
pid=$!
until ls d/checkpoint-*[3-9].json >/dev/null 2>&1; do kill -0 $pid || break; done
file=
for each in /proc/$pid/fd/*; do
  case $(readlink $each) in "$PWD"/sp/*) file=$each;; esac
done
echo $file >file
ls -A sp >names
while kill -0 $pid 2>/dev/null; do )" +
                             harm + R"(; done 2>/dev/null
wait $pid
)");
    EXPECT_NE(text("file"), "\n");
    EXPECT_EQ(text("names"), "");  // it has no name there
    return {status, text("out"), text("err")};
  }
  std::int64_t disk_bytes() const { return json(kSpilling + " --steps 1")["disk_bytes"]; }
  static bool can_mount() { return std::system("unshare -rm sh -c 'mount -t tmpfs none /mnt' >/dev/null 2>&1") == 0; }
  // Commands that mount a file system of so many bytes at sp. Its pages are memory, which an overlay does not tell.
  static std::string small_disk(std::int64_t bytes) {
    return fmt::format(
        "mkdir t lower\nmount -t tmpfs -o size={} none t\nmkdir t/upper t/work\n"
        "mount -t overlay -o lowerdir=lower,upperdir=t/upper,workdir=t/work none sp",
        bytes);
  }
  // The status of the run with sp mounted by these commands.
  int mounted(const std::string& mounts, const std::string& arguments) const {
    write("inside", mounts + "\nexec '" OUTSIZE_PROGRAM "' " + kSpilling + arguments + "\n");
    const int status = std::system(("cd '" + path(".") + "' && unshare -rm sh inside >stdout 2>stderr").c_str());
    return WEXITSTATUS(status);
  }
  // After harm the checkpoint is whole, and the run ends as one that was never harmed.
  void expect_resumed() const {
    EXPECT_TRUE(std::filesystem::is_empty(path("sp")));
    std::int64_t steps = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path("d")))
      if (entry.path().extension() == ".json")
        steps = std::max(steps, Json::parse(read_text(entry.path()))["step"].get<std::int64_t>());
    ASSERT_GE(steps, 3);
    const std::string more = fmt::format(" --steps {}", steps + 2);
    const Result resumed = run(kSpilling + more + " --checkpoint d --resume --json");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    const Json object = Json::parse(resumed.out), whole = train(more);
    EXPECT_EQ(object["steps"], 2);
    EXPECT_EQ(object["params_sha256"], whole["params_sha256"]);
    EXPECT_EQ(object["states_sha256"], whole["states_sha256"]);
  }
};

TEST_F(Spill, PeaksAreKnownToTheByteInEveryTier) {
  const Json object = json(kSpilling + " --steps 3 --check-spill"), keep = train("--steps 3");
  EXPECT_EQ(object["params_sha256"], keep["params_sha256"]);
  EXPECT_LE(object["host_bytes"], 140 << 10);
  EXPECT_GT(object["disk_bytes"], 0);
  EXPECT_EQ(object["measured_peak_bytes"], object["predicted_peak_bytes"]);
  EXPECT_EQ(object["measured_host_bytes"], object["host_bytes"]);
  EXPECT_EQ(object["measured_disk_bytes"], object["disk_bytes"]);
  // Evaluation is a program of its own in the same memory.
  json(kSpilling + " --steps 2 --check-spill --data synthetic --eval-every 1");
}

TEST_F(Spill, ATruncatedFileEndsTheRunAndNotItsCheckpoint) {
  const Result result = harmed(kSpilling, "truncate -s 0 $file");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("spill directory 'sp': the spill file ended "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" in d is whole"), std::string::npos) << result.err;
  expect_resumed();
}

TEST_F(Spill, AFileWrittenFromOutsideIsFoundWhereItIsChecked) {
  const Result result = harmed(kSpilling + " --check-spill", "head -c 210000 /dev/urandom | dd of=$file conv=notrunc");
  EXPECT_EQ(result.status, 3);
  EXPECT_NE(result.err.find("internal error: step "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("was changed on disk between two uses"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" in d is whole"), std::string::npos) << result.err;
  expect_resumed();
}

TEST_F(Spill, AKilledRunLeavesNothingInItsDirectory) {
  const Result result = harmed(kSpilling, "kill -9 $pid");
  EXPECT_EQ(result.status, 137);
  expect_resumed();
}

TEST_F(Spill, ARemovedDirectoryDoesNotMatter) {
  const Result result = harmed(kSpilling, "rmdir sp; sleep 0.2; kill -TERM $pid; wait $pid; exit $?");
  EXPECT_EQ(result.status, 143);
  EXPECT_NE(result.err.find("stopped by SIGTERM"), std::string::npos) << result.err;
  std::filesystem::create_directories(path("sp"));
  expect_resumed();
}

// The room is taken before the first step, and not a byte more is needed later.
TEST_F(Spill, AFullDiskIsFoundBeforeTheFirstStep) {
  if (!can_mount()) GTEST_SKIP() << "no file system can be mounted here";
  constexpr std::int64_t kPage = 4096;
  const std::int64_t needed = disk_bytes();
  EXPECT_EQ(mounted(small_disk(needed / 2), " --steps 2 --checkpoint d"), 2);
  EXPECT_NE(text("stderr").find("spill directory 'sp': cannot reserve " + format_bytes(needed) +
                                ": No space left on device; free some room there, or name another directory with --spill"),
            std::string::npos)
      << text("stderr");
  EXPECT_FALSE(std::filesystem::exists(path("d")));
  std::filesystem::remove_all(path("t"));
  std::filesystem::remove_all(path("lower"));
  EXPECT_EQ(mounted(small_disk((needed + kPage - 1) / kPage * kPage), " --steps 2"), 0) << text("stderr");
}

// What waits in a file there waits in memory.
TEST_F(Spill, AFileSystemInMemoryIsNoDisk) {
  if (!can_mount()) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_EQ(mounted("mount -t tmpfs none sp", " --steps 2 --checkpoint d"), 2);
  EXPECT_NE(text("stderr").find("spill directory 'sp': is on a file system that lives in memory, where nothing is saved; name a "
                                "directory on a disk with --spill"),
            std::string::npos)
      << text("stderr");
  EXPECT_FALSE(std::filesystem::exists(path("d")));
}

TEST_F(Spill, ADirectoryThatCannotBeWrittenIsFoundBeforeTheFirstStep) {
  if (!can_mount()) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_EQ(mounted("mount -t tmpfs -o ro none sp", " --steps 2 --checkpoint d"), 2);
  EXPECT_NE(text("stderr").find("spill directory 'sp': cannot make a file of " + format_bytes(disk_bytes()) +
                                ": Read-only file system; name a writable directory on a local disk with --spill"),
            std::string::npos)
      << text("stderr");
  EXPECT_FALSE(std::filesystem::exists(path("d")));
}

// Where files may not be so large.
TEST_F(Spill, ALimitOfTheSystemIsFoundBeforeTheFirstStep) {
  const std::int64_t needed = disk_bytes();
  EXPECT_EQ(shell("trap '' XFSZ; ulimit -f 8; $outsize " + kSpilling + " --steps 2 --checkpoint d\n"), 2);
  EXPECT_NE(text("stderr").find("spill directory 'sp': cannot reserve " + format_bytes(needed) +
                                ": File too large; free some room there"),
            std::string::npos)
      << text("stderr");
  EXPECT_FALSE(std::filesystem::exists(path("d")));
}

}  // namespace
}  // namespace outsize
