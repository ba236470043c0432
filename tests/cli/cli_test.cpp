#include "cli.h"

#include <cstdio>
#include <random>
#include <sstream>
#include <tuple>

#include "../data/image_writers.h"
#include "../write_npz.h"
#include "data/safetensors.h"

namespace outsize {
namespace {

// The keys that other tools rely on.
TEST_F(Cli, TrainHasItsKeys) {
  const Json object = train("--steps 2 --memory 1GiB");
  for (const char* key :
       {"model", "backend", "planner", "budget_bytes", "predicted_peak_bytes", "measured_peak_bytes", "predicted_step_s",
        "measured_step_s", "steps", "losses", "swapped_bytes", "recomputed_ops", "tiles", "params_sha256"})
    EXPECT_TRUE(object.contains(key)) << key;
  EXPECT_EQ(object["model"], "resnet18");
  EXPECT_EQ(object["backend"], "cpu");
  EXPECT_EQ(object["budget_bytes"], 1 << 30);
  EXPECT_EQ(object["losses"].size(), 2U);
  EXPECT_EQ(object["params_sha256"].get<std::string>().size(), 64U);
}

TEST_F(Cli, PlanHasItsKeys) {
  const Json object = json("plan " + kModel);
  for (const char* key :
       {"fits", "planner", "budget_bytes", "peak_bytes", "missing_bytes", "step_s", "keep_peak_bytes", "keep_step_s",
        "lower_bound_s", "ratio_to_bound", "ratio_to_keep", "plan_seconds", "swapped_bytes", "recomputed_ops", "tiles"})
    EXPECT_TRUE(object.contains(key)) << key;
  EXPECT_EQ(object["fits"], true);
  EXPECT_EQ(object["missing_bytes"], 0);
  EXPECT_GE(object["ratio_to_bound"].get<double>(), 1 - 1e-9);
}

TEST_F(Cli, RefusedPlanSaysWhatIsMissing) {
  const Result result = run("plan " + kModel + " --memory 64KiB --json");
  EXPECT_EQ(result.status, 1);
  const Json object = Json::parse(result.out);
  EXPECT_EQ(object["fits"], false);
  EXPECT_EQ(object["budget_bytes"], 65536);
  EXPECT_GT(object["missing_bytes"].get<std::int64_t>(), 0);
  EXPECT_EQ(object["peak_bytes"].get<std::int64_t>(), 65536 + object["missing_bytes"].get<std::int64_t>());
}

TEST_F(Cli, PeakIsKnownToTheByte) {
  const Json object = train("--steps 2");
  EXPECT_EQ(object["measured_peak_bytes"], object["predicted_peak_bytes"]);
  // A percentage is of what keep needs: all of it is just enough.
  const Json keep = json("plan " + kModel + " --planner keep --memory 100%");
  EXPECT_EQ(keep["peak_bytes"], keep["budget_bytes"]);
}

// The mean of the first and of the last five losses.
std::pair<double, double> ends_of(const std::vector<double>& losses) {
  double first = 0, last = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    first += losses[i] / 5;
    last += losses[losses.size() - 1 - i] / 5;
  }
  return {first, last};
}

TEST_F(Cli, TheSyntheticTaskIsLearnt) {
  const auto [first, last] = ends_of(train("--steps 30 --lr 0.01 --momentum 0.5")["losses"]);
  EXPECT_LT(last, 0.5 * first);
}

TEST_F(Cli, TheSeedDecidesEverything) {
  const Json once = train("--steps 2"), again = train("--steps 2"), other = train("--steps 2 --threads 1");
  EXPECT_EQ(once["params_sha256"], again["params_sha256"]);
  EXPECT_EQ(once["states_sha256"], again["states_sha256"]);
  EXPECT_EQ(once["losses"], again["losses"]);
  // Threads may add up in another order, but draw the same numbers.
  ASSERT_EQ(other["losses"].size(), 2U);
  for (std::size_t step = 0; step < 2; ++step) {
    const double loss = once["losses"][step].get<double>();
    EXPECT_NEAR(other["losses"][step].get<double>(), loss, 1e-5 * loss) << step;
  }
  const Json seeded = json("train resnet18 --width 0.125 --image 32 --batch 4 --classes 5 --seed 4 --steps 2");
  EXPECT_NE(once["params_sha256"], seeded["params_sha256"]);
  EXPECT_GT(std::abs(seeded["losses"][0].get<double>() - once["losses"][0].get<double>()), 1e-3);
}

TEST_F(Cli, ADumpedPlanAndGraphAreReplayed) {
  const Result plan = run("plan " + kModel + " --dump plan");
  EXPECT_EQ(plan.status, 0) << plan.err;
  std::filesystem::copy(path("stdout"), path("a.plan"));
  const Json direct = train("--steps 2"), replayed = train("--steps 2 --plan a.plan");
  EXPECT_EQ(direct["params_sha256"], replayed["params_sha256"]);
  EXPECT_EQ(direct["predicted_peak_bytes"], replayed["predicted_peak_bytes"]);

  run("train " + kModel + " --dump forward");
  std::filesystem::copy(path("stdout"), path("a.graph"));
  EXPECT_EQ(json("train a.graph --seed 3 --steps 2")["params_sha256"], direct["params_sha256"]);
  for (const char* what : {"graph", "program"}) EXPECT_NE(run("plan " + kModel + " --dump " + what).out, "") << what;
}

TEST_F(Cli, EveryOptimizerLearns) {
  for (const char* optimizer :
       {"--lr 0.02 --momentum 0.5 --nesterov", "--lr 0.003 --optimizer adam", "--lr 0.003 --optimizer adamw --weight-decay 0.01",
        "--lr 0.01 --momentum 0.5 --clip-norm 50", "--lr 0.003 --optimizer adam --clip-norm 0.5 --beta1 0.8 --beta2 0.99"}) {
    const auto [first, last] = ends_of(train(std::string("--steps 30 ") + optimizer)["losses"]);
    EXPECT_LT(last, 0.7 * first) << optimizer;
  }
}

// A norm that no gradient reaches changes nothing; one that all exceed does.
TEST_F(Cli, ClippingIsByTheCommonNorm) {
  const Json plain = train("--steps 3"), wide = train("--steps 3 --clip-norm 1e9"), narrow = train("--steps 3 --clip-norm 1e-3");
  EXPECT_EQ(plain["params_sha256"], wide["params_sha256"]);
  EXPECT_NE(plain["params_sha256"], narrow["params_sha256"]);
}

// Tokens of which each is followed by the same one: the table of followers is learnt.
TEST_F(Cli, TokensAreLearnt) {
  write("tokens.graph", R"(graph tokens
input x i32[4, 32]
input labels i32[4, 32]
param words f32[50, 16] init=normal:0.3
param head f32[50, 16] init=normal:0.3
embed: e = embedding(x, words)
head: logits = linear(e, head)
count: count = label_count(labels)
loss: loss = softmax_cross_entropy(logits, labels, count)
output loss
)");
  const auto [first, last] = ends_of(json("train tokens.graph --steps 60 --optimizer adam --lr 0.03")["losses"]);
  EXPECT_LT(last, 0.6 * first);
  EXPECT_EQ(run("train tokens.graph --steps 1 --save-gradients g.safetensors").status, 0);
  const SafetensorsFile file(path("g.safetensors"));
  EXPECT_NE(file.find("grad.words"), nullptr);
  EXPECT_EQ(file.find("grad.x"), nullptr);
}

// Every position of an image, or of a volume, has a label.
TEST_F(Cli, PositionsAreLearnt) {
  write("positions.graph", R"(graph positions
input x f32[2, 2, 12, 10]
input labels i32[2, 12, 10]
param weight f32[3, 2, 3, 3] init=normal:0.1
param bias f32[3]
conv: logits = conv2d(x, weight, bias) padding=[1, 1, 1, 1]
loss: loss = softmax_cross_entropy(logits, labels)
output loss
)");
  const auto [first, last] = ends_of(json("train positions.graph --steps 60 --optimizer adam --lr 0.03")["losses"]);
  EXPECT_LT(last, 0.7 * first);
}

// Saved weights, states and momentum continue bit by bit: with one batch that repeats, 2 + 2 steps are 4 steps.
TEST_F(Cli, SavedIsContinued) {
  Array x = make_array(ElementType::u8, {4, 3, 32, 32});
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<std::byte>(i * 37 % 251);
  write_npz(path("d.npz"), {{"x", x}, {"y", make_array(ElementType::i64, {4})}});
  const std::string data = " --data d.npz --shuffle off ";
  for (const std::string optimizer : {"", " --optimizer adam"}) {
    const Json whole = train("--steps 4" + data + optimizer), first = train("--steps 2 --save a.safetensors" + data + optimizer);
    const Json second = train("--steps 2 --weights a.safetensors" + data + optimizer);
    EXPECT_NE(whole["params_sha256"], first["params_sha256"]);
    EXPECT_EQ(whole["params_sha256"], second["params_sha256"]) << optimizer;
    EXPECT_EQ(whole["states_sha256"], second["states_sha256"]) << optimizer;
  }
  EXPECT_EQ(json("train " + kModel + " --epochs 3" + data)["steps"], 3);
}

// A network with another head takes the rest of the weights; with no learning rate it keeps them, and its own head.
// The loss is that before the step, and finite.
TEST_F(Cli, WeightsThatAreNotFiniteAreNotSaved) {
  const std::string sizes = "train mlp --image 8 --width 0.1 --batch 2 --steps 1 --momentum 0 ";
  const Result result = run(sizes + "--lr 3e38 --weight-decay 1e30 --save infinite.safetensors");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("outsize: infinite.safetensors: not written, for 0.bias holds what is not a finite number. A smaller "
                            "--lr, --warm-up or --clip-norm may help"),
            std::string::npos)
      << result.err;
  EXPECT_FALSE(std::filesystem::exists(path("infinite.safetensors")));
}

TEST_F(Cli, WeightsOfAnotherHeadAreTakenInPart) {
  train("--steps 1 --save a.safetensors");
  const std::string other = "train resnet18 --width 0.125 --image 32 --batch 4 --classes 7 --seed 8 --steps 1 --lr 0 --momentum 0 ";
  const Result refused = run(other + "--weights a.safetensors");
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("of another shape: fc.bias is [5], the model's [7], fc.weight is [5, "), std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("--partial takes what fits"), std::string::npos) << refused.err;

  ASSERT_EQ(run(other + "--save new.safetensors").status, 0);
  const Result taken = run(other + "--weights a.safetensors --partial --save b.safetensors");
  ASSERT_EQ(taken.status, 0) << taken.err;
  EXPECT_NE(taken.err.find("2 tensors of another shape, left as initialised: fc.bias is [5], the model's [7], fc.weight is "),
            std::string::npos)
      << taken.err;
  const SafetensorsFile a(path("a.safetensors")), b(path("b.safetensors")), fresh(path("new.safetensors"));
  const auto data = [](const SafetensorsFile& file, const std::string& name) { return file.read(*file.find(name)).data; };
  for (const std::string name : {"conv1.weight", "layer4.1.conv2.weight"}) {
    EXPECT_EQ(data(b, name), data(a, name)) << name;
    EXPECT_NE(data(b, name), data(fresh, name)) << name;
  }
  EXPECT_EQ(data(b, "fc.weight"), data(fresh, "fc.weight"));
  EXPECT_EQ(run("train mlp --partial").status, 2);
}

TEST_F(Cli, ResumesAsIfNeverStopped) {
  const std::string run = "--optimizer adamw --lr 0.001 --warm-up 3 --checkpoint ";
  const Json whole = train(run + "a --steps 6");
  EXPECT_EQ(train(run + "b --steps 4")["steps_made"], 4);
  const Json resumed = train(run + "b --steps 6 --resume");
  EXPECT_EQ(resumed["steps"], 2);
  EXPECT_EQ(resumed["params_sha256"], whole["params_sha256"]);
  EXPECT_EQ(resumed["states_sha256"], whole["states_sha256"]);
}

// The plans of the checkpoint are the run's, whatever its planner would make of the model by now: here they are exchanged for
// others.
TEST_F(Cli, ResumesByThePlansOfTheCheckpoint) {
  const std::string task = "train " + kModel + " --planner recompute-cheap --memory 98% --checkpoint c --json --steps ";
  const Json whole = train("--steps 6");
  ASSERT_EQ(run(task + "3").status, 0);
  const std::string file = "c/checkpoint-000000003.json";
  const Json saved = Json::parse(text(file));
  ASSERT_EQ(saved["plans"].size(), 1U);
  const auto resume_with = [&](const std::string& plan, const std::string& flags) {
    for (const std::string step : {"4", "5", "6"}) std::filesystem::remove(path("c/checkpoint-00000000" + step + ".json"));
    Json other = saved;
    other["plans"].begin().value() = plan;
    write(file, other.dump());
    return run(flags);
  };
  const std::string again = task + "6 --resume";

  const Result same = resume_with(saved["plans"].begin()->get<std::string>(), again);
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_EQ(same.err, "");
  EXPECT_GT(Json::parse(same.out)["recomputed_ops"], 0);
  EXPECT_EQ(Json::parse(same.out)["params_sha256"], whole["params_sha256"]);

  ASSERT_EQ(run("plan " + kModel + " --planner recompute-cheap --memory 100% --dump plan").status, 0);
  std::string plan = text("stdout");
  ASSERT_NE(plan.find("by recompute-cheap"), std::string::npos) << plan;
  plan.replace(plan.find("by recompute-cheap"), 18, "by somebody");
  const Result exchanged = resume_with(plan, again);
  ASSERT_EQ(exchanged.status, 0) << exchanged.err;
  EXPECT_EQ(Json::parse(exchanged.out)["planner"], "somebody");
  EXPECT_EQ(Json::parse(exchanged.out)["params_sha256"], whole["params_sha256"]);

  // A kernel that is not there any more is no reason to give up the plan.
  const std::size_t first_run = plan.find("run ") + 4;
  const std::string op = plan.substr(first_run, plan.find('\n', first_run) - first_run);
  const std::size_t after_head = plan.find('\n') + 1;
  const Result gone = resume_with(plan.substr(0, after_head) + "kernel " + op + " nonsense\n" + plan.substr(after_head), again);
  ASSERT_EQ(gone.status, 0) << gone.err;
  EXPECT_NE(gone.err.find("op " + op + ": backend cpu has no kernel 'nonsense' for it here; it has "), std::string::npos)
      << gone.err;
  EXPECT_NE(gone.err.find("; its kernels are chosen anew, and results may differ in the last bits"), std::string::npos) << gone.err;
  EXPECT_EQ(Json::parse(gone.out)["planner"], "somebody");
  EXPECT_EQ(Json::parse(gone.out)["params_sha256"], whole["params_sha256"]);

  const Result unfit = resume_with("plan resnet18 by somebody\nrun nothing\n", again);
  ASSERT_EQ(unfit.status, 0) << unfit.err;
  EXPECT_NE(unfit.err.find("the checkpoint's plan of whole [4, 3, 32, 32]:2: "), std::string::npos) << unfit.err;
  EXPECT_NE(unfit.err.find("it is planned anew"), std::string::npos) << unfit.err;
  EXPECT_EQ(Json::parse(unfit.out)["planner"], "recompute-cheap");

  const Result larger =
      resume_with(plan, "train " + kModel + " --planner recompute-cheap --memory 99% --checkpoint c --json --steps 6 --resume");
  ASSERT_EQ(larger.status, 0) << larger.err;
  EXPECT_EQ(larger.err, "outsize: the checkpoint's --memory is 98%, but this run's is 99%; the run is planned anew\n");
  EXPECT_EQ(Json::parse(larger.out)["planner"], "recompute-cheap");
  EXPECT_EQ(Json::parse(larger.out)["params_sha256"], whole["params_sha256"]);
}

// A run does not go on with other samples than it began with; what it evaluates on matters where that can end it.
TEST_F(Cli, ChangedDataIsNoticed) {
  Array x = make_array(ElementType::u8, {6, 3, 8, 8});
  const auto write_data = [&](const std::string& name, int last) {
    x.data.back() = static_cast<std::byte>(last);
    write_npz(path(name), {{"x", x}, {"y", make_array(ElementType::i64, {6})}});
  };
  const std::string task = "train mlp --width 0.1 --image 8 --classes 4 --batch 2 --data d.npz --eval-data e.npz ";
  const auto refused = [](const Result& result, const std::string& message) {
    EXPECT_EQ(result.status, 2);
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  };
  write_data("d.npz", 1);
  write_data("e.npz", 1);
  for (const std::string more : {"--checkpoint a", "--checkpoint b --eval-every 2 --patience 9"})
    ASSERT_EQ(run(task + more + " --steps 2").status, 0);
  write_data("e.npz", 2);
  EXPECT_EQ(run(task + "--checkpoint a --resume --steps 4").status, 0);
  refused(run(task + "--checkpoint b --eval-every 2 --patience 9 --resume --steps 4"),
          "b: the checkpoint's content of --eval-data is 6 samples with checksum ");
  write_data("d.npz", 2);
  refused(run(task + "--checkpoint a --resume --steps 6"), "a: the checkpoint's content of --data is 6 samples with checksum ");
}

// Killed at any instant, also while a checkpoint is being written, a run goes on and ends as the one that was never killed.
// SIGKILL at 50 random instants, many of them while a checkpoint is being written.
TEST_F(Cli, SurvivesKills) {
  const std::string steps = "train " + kModel + " --steps 120";
  const std::string run = steps + " --json --checkpoint k --checkpoint-every 1 --resume";
  const auto expected = json(steps)["params_sha256"];
  std::mt19937 random(11);
  int killed = 0, finished = 0;
  const auto check = [&](const Result& result) {
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(Json::parse(result.out)["params_sha256"], expected);
    EXPECT_EQ(Json::parse(result.out)["steps_made"], 120);
    std::filesystem::remove_all(path("k"));
    ++finished;
  };
  while (killed < 50) {
    const Result result = run_killed(run, 40 + static_cast<int>(random() % 250));
    if (result.status == 137)
      ++killed;
    else
      check(result);
    if (HasFatalFailure()) return;
  }
  check(this->run(run));
  EXPECT_GE(finished, 1);
}

// Two runs would remove each other's checkpoints.
TEST_F(Cli, OneRunUsesAFolderOfCheckpoints) {
  const std::string task = "'" OUTSIZE_PROGRAM "' train " + kModel + " --json --checkpoint d ";
  write("two", task + "--steps 1000000 >a 2>&1 &\necho $! >process\n" +
                   "until [ -e d/checkpoint-000000000.json ]; do sleep 0.05; done\n" + task +
                   "--steps 3 --resume >b 2>error\necho $? >status\nkill -9 $!\nwait $!\n" + task + "--steps 3 --resume >c\n");
  ASSERT_EQ(std::system(("cd '" + path(".") + "' && timeout -s KILL 60 sh two >stdout 2>stderr").c_str()), 0) << text("stderr");
  EXPECT_EQ(text("status"), "2\n");
  const std::string process = text("process");
  EXPECT_EQ(text("error"), "outsize: d: another run (process " + process.substr(0, process.size() - 1) +
                               ") is using this folder of checkpoints; wait until it has ended, or give another folder\n");
  EXPECT_EQ(Json::parse(text("c"))["params_sha256"], train("--steps 3")["params_sha256"]);
  // Nothing is left of the lock, nor of one that was taken for a run that did not begin.
  EXPECT_FALSE(std::filesystem::exists(path("d/lock")));
  EXPECT_EQ(run("train " + kModel + " --checkpoint e --memory 1KiB").status, 1);
  EXPECT_FALSE(std::filesystem::exists(path("e")));
}

// Each file may have 4 KiB: no checkpoint can be written any more, and what was there before is still there.
TEST_F(Cli, ACheckpointThatCannotBeWrittenLeavesTheLast) {
  const std::string task = "train " + kModel + " --json --checkpoint d --checkpoint-every 1";
  const Json whole = json("train " + kModel + " --steps 6");
  EXPECT_EQ(run(task + " --steps 3").status, 0);
  write("limited", "trap '' XFSZ; ulimit -f 8; exec '" OUTSIZE_PROGRAM "' " + task + " --steps 6 --resume\n");
  const int status = std::system(("cd '" + path(".") + "' && sh limited >stdout 2>stderr").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_NE(text("stderr").find("checkpoint-000000004.safetensors: cannot be written: File too large"), std::string::npos)
      << text("stderr");
  const Result resumed = run(task + " --steps 6 --resume");
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(Json::parse(resumed.out)["params_sha256"], whole["params_sha256"]);
  EXPECT_EQ(Json::parse(resumed.out)["steps"], 3);
}

// The same on a file system that is really full, where this user may mount one.
TEST_F(Cli, AFullDiskLeavesTheLastCheckpoint) {
  if (std::system("unshare -rm sh -c 'mount -t tmpfs none /mnt' >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no file system can be mounted here";
  const std::string task = "'" OUTSIZE_PROGRAM "' train " + kModel + " --checkpoint m/d --checkpoint-every 1 --json";
  write("full", "set -e\nmkdir m\nmount -t tmpfs -o size=8m none m\n" + task + " --steps 3 >a\n" +
                    "dd if=/dev/zero of=m/fill bs=64k 2>/dev/null || true\n" + task +
                    " --steps 6 --resume >b 2>error || echo $? >status\nrm m/fill\n" + task + " --steps 6 --resume >c\n");
  ASSERT_EQ(std::system(("cd '" + path(".") + "' && unshare -rm sh full >stdout 2>stderr").c_str()), 0) << text("stderr");
  EXPECT_EQ(text("status"), "2\n");
  EXPECT_NE(text("error").find("cannot be written: No space left on device"), std::string::npos) << text("error");
  const Json resumed = Json::parse(text("c"));
  EXPECT_EQ(resumed["steps_made"], 6);
  EXPECT_EQ(resumed["params_sha256"], json("train " + kModel + " --steps 6")["params_sha256"]);
}

// A network of 0.25 M parameters on 4,000 photos of 32 × 32. Its layers are too small for a second thread to be worth waking.
TEST_F(Cli, LearnsCifar) {
  const std::string data = OUTSIZE_SHARED_DATA "/cifar10-small";
  if (!std::filesystem::is_directory(data)) GTEST_SKIP() << "the data is not here: shared/data/cifar10-small";
  const Json object =
      json("train resnet18 --width 0.15 --image 32 --data '" + data +
           "' --batch 40 --epochs 18 --lr 0.05 --schedule cosine --augment flip,crop --weight-decay 5e-4 --threads 1");
  EXPECT_LE(object["parameters"], 300'000);
  EXPECT_EQ(object["eval_samples"], 1000);
  EXPECT_GE(object["eval_accuracy"], 0.45);
  RecordProperty("accuracy", object["eval_accuracy"].dump());
}

TEST_F(Cli, SignalsEndWithACheckpointAndASummary) {
  const Result stopped = run_killed("train " + kModel + " --steps 1000000 --checkpoint s", 3000, "TERM");
  EXPECT_NE(stopped.err.find("stopped by SIGTERM after step"), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("--resume goes on"), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.out.find("parameters"), std::string::npos) << stopped.out;
  EXPECT_NE(stopped.out.find("stopped     by SIGTERM"), std::string::npos) << stopped.out;
  // That of the beginning and that of the end.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("s")), {}), 4);
}

TEST_F(Cli, ASignalEndsARunWithItsNumber) {
  const std::string task = "'" OUTSIZE_PROGRAM "' train " + kModel + " --checkpoint s --json --steps ";
  const auto signalled = [&](const std::string& before, const std::string& signal, const std::string& steps) {
    std::filesystem::remove_all(path("s"));
    write("signalled", before + task + steps +
                           " >out 2>error &\nuntil [ -e s/checkpoint-000000000.json ]; do sleep 0.02; done\nkill -" + signal +
                           " $!\nwait $!\necho $? >status\n");
    EXPECT_EQ(std::system(("cd '" + path(".") + "' && timeout -s KILL 60 sh signalled >stdout 2>stderr").c_str()), 0);
    return Json::parse(text("out"));
  };
  for (const auto& [signal, status] : {std::pair("HUP", "129\n"), std::pair("INT", "130\n"), std::pair("TERM", "143\n")}) {
    const Json object = signalled("", signal, "1000000");
    EXPECT_EQ(text("status"), status) << text("error");
    EXPECT_EQ(object["stopped_by"], "SIG" + std::string(signal));
    EXPECT_TRUE(std::filesystem::exists(path(fmt::format("s/checkpoint-{:09}.json", object["steps_made"].get<int>()))));
  }
  const Json whole = signalled("nohup ", "HUP", "100");
  EXPECT_EQ(text("status"), "0\n");
  EXPECT_EQ(whole["steps_made"], 100);
}

// A reader of its messages that ends does not end the run.
TEST_F(Cli, ABrokenPipeEndsNothing) {
  const std::string task = "'" OUTSIZE_PROGRAM "' train " + kModel + " --steps 20 --print-every 1 --checkpoint d";
  const std::string line = "cd '" + path(".") + "' && { " + task + " 2>&3 >out; echo $? >status; } 3>&1 | true";
  EXPECT_EQ(std::system(line.c_str()), 0);
  EXPECT_EQ(text("status"), "0\n");
  EXPECT_TRUE(std::filesystem::exists(path("d/checkpoint-000000020.json")));
}

TEST_F(Cli, EvaluatesAndLogs) {
  Array x = make_array(ElementType::u8, {12, 3, 32, 32});
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<std::byte>(i * 31 % 253);
  write_npz(path("e.npz"), {{"x", x}, {"y", make_array(ElementType::i64, {12})}});
  const Json object = train("--steps 4 --data e.npz --eval-data e.npz --eval-every 2 --log l.jsonl");
  EXPECT_EQ(object["eval_samples"], 12);
  EXPECT_GE(object["eval_accuracy"], 0);
  EXPECT_LE(object["eval_accuracy"], 1);
  std::istringstream log(text("l.jsonl"));
  std::vector<Json> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(Json::parse(line));
  ASSERT_EQ(lines.size(), 6U);  // four steps, two evaluations
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[0]["loss"], object["losses"][0]);
  EXPECT_EQ(lines[2]["step"], 2);
  EXPECT_TRUE(lines[2].contains("eval_loss"));
  EXPECT_EQ(lines[5]["eval_loss"], object["eval_loss"]);
}

// Three samples in batches of two: the last one is alone, which running statistics do not mind.
TEST_F(Cli, EvaluatesASingleSample) {
  Array x = make_array(ElementType::u8, {3, 3, 32, 32});
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<std::byte>(i % 251);
  write_npz(path("e.npz"), {{"x", x}, {"y", make_array(ElementType::i64, {3})}});
  for (const std::string model :
       {"resnet18 --image 32 --width 0.125", "vgg11_bn --image 32 --width 0.125", "densenet121 --image 32 --width 0.25"}) {
    const Json object = json("train " + model + " --classes 4 --batch 2 --steps 1 --eval-data e.npz");
    EXPECT_EQ(object["eval_samples"], 3) << model;
    EXPECT_TRUE(object["eval_loss"].is_number()) << model;
  }
}

// What evaluation leaves out counts as well, once, however often it is come across.
TEST_F(Cli, SkippedSamplesOfEvaluationCount) {
  for (const std::string folder : {"train/cat", "train/dog", "test/cat", "test/dog"}) {
    std::filesystem::create_directories(path("photos/" + folder));
    for (int i = 0; i < 2; ++i)
      write_png(path(fmt::format("photos/{}/{}.png", folder, i)),
                Pixels::make(8, 8, 3, [i](int row, int column, int channel) { return 9 * row + 5 * column * channel + 40 * i; }));
  }
  write("photos/test/cat/1.png", "no image");
  const Result result = run("train mlp --image 8 --width 0.1 --batch 2 --data photos --steps 4 --eval-every 2 --json");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("photos/test/cat/1.png"), std::string::npos) << result.err;
  EXPECT_EQ(Json::parse(result.out)["skipped_samples"], 1);
  EXPECT_EQ(Json::parse(result.out)["eval_samples"], 3);
}

// The log of a run that was killed, and of others before it in the same file, has every step once when it has been resumed.
TEST_F(Cli, TheLogOfAResumedRunRepeatsNothing) {
  const auto steps = [&] {
    std::istringstream log(text("r.jsonl"));
    std::vector<int> found;
    for (std::string line; std::getline(log, line);) found.push_back(Json::parse(line)["step"]);
    return found;
  };
  const std::string task = "--log r.jsonl --checkpoint ";
  train("--log r.jsonl --steps 3");
  train(task + "r --checkpoint-every 2 --steps 4");
  // As a kill in the seventh step would have left it, with the checkpoint of the fourth.
  write("r.jsonl", text("r.jsonl") + "{\"step\":5,\"loss\":1}\n{\"step\":6,\"loss\":1}\n{\"step\":7,\"lo");
  train(task + "r --resume --steps 6");
  EXPECT_EQ(steps(), (std::vector<int>{1, 2, 3, 1, 2, 3, 4, 5, 6}));
  EXPECT_NE(text("r.jsonl").find("\"step\":5,\"loss\":"), text("r.jsonl").find("\"step\":5,\"loss\":1}"));
  // Another file, longer than that of the checkpoint, is not the run's, and is left as it is.
  const std::string other = std::string(4000, ' ') + "\n{\"step\":9}\n";
  write("o.jsonl", other);
  train("--log o.jsonl --checkpoint r --resume --steps 7");
  EXPECT_TRUE(text("o.jsonl").starts_with(other + "{\"step\":7,"));
}

TEST_F(Cli, DataInArraysSaysHowManyClassesThereAre) {
  Array y = make_array(ElementType::u8, {8});
  y.data[5] = std::byte{6};
  write_npz(path("c.npz"), {{"x", make_array(ElementType::u8, {8, 3, 32, 32})}, {"y", y}});
  const std::string task = "train resnet18 --width 0.125 --image 32 --batch 4 --steps 1 --data c.npz ";
  EXPECT_EQ(json(task)["parameters"], json(task + "--classes 7")["parameters"]);
  const Result fewer = run(task + "--classes 6");
  EXPECT_EQ(fewer.status, 2);
  EXPECT_NE(fewer.err.find("label 6 of sample 5 is not one of the model's 6 classes (--classes): expected 0 to 5"),
            std::string::npos)
      << fewer.err;
}

// An image whose header is damaged would be planned for as what it claims to be.
TEST_F(Cli, AnImageThatClaimsToBeHugeIsSkipped) {
  std::filesystem::create_directories(path("i/a"));
  std::filesystem::create_directories(path("i/b"));
  const Pixels pixels = Pixels::make(32, 40, 3, [](int r, int c, int k) { return 3 * r + 2 * c + k; });
  for (const char* name : {"i/a/0.png", "i/a/1.png", "i/b/0.png"}) write_png(path(name), pixels);
  write("i/a/1.png", claiming(text("i/a/1.png"), 60000, 70000));
  const std::string task = "train resnet18 --width 0.125 --image own --data i --epochs 1 --json";
  const Result result = run(task);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("skipped: i/a/1.png: damaged PNG image: "), std::string::npos) << result.err;
  EXPECT_EQ(Json::parse(result.out)["skipped_samples"], 1);
  EXPECT_EQ(run(task + " --strict").status, 2);
}

TEST_F(Cli, GradientsAreSaved) {
  const Json saved = train("--steps 1 --save-gradients g.safetensors");
  // Its image is a map in blocks then, and planar without; the bits are the same.
  EXPECT_EQ(saved["params_sha256"], train("--steps 1")["params_sha256"]);
  const SafetensorsFile file(path("g.safetensors"));
  for (const char* name : {"grad.x", "grad.conv1.weight", "grad.layer1.0.bn1.weight", "grad.fc.bias", "losses"})
    EXPECT_NE(file.find(name), nullptr) << name;
  EXPECT_EQ(file.find("grad.x")->shape, (Dims{4, 3, 32, 32}));
}

TEST_F(Cli, DoublePrecisionRunsOnReference) {
  const Json object = json("train mlp --width 0.05 --image 8 --batch 2 --classes 4 --precision f64 --steps 1");
  EXPECT_EQ(object["backend"], "reference");
}

TEST_F(Cli, InAPipeLinesArePrintedNowAndThen) {
  const Result result = run("train " + kModel + " --steps 5 --print-every 2");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 3) << result.err;  // steps 2, 4 and 5
  EXPECT_TRUE(result.err.starts_with("step 2/5  loss ")) << result.err;
  EXPECT_EQ((result.err + result.out).find('\r'), std::string::npos);
  EXPECT_TRUE(result.out.starts_with("model ")) << result.out;
}

// 10 samples in batches of 4: three steps an epoch, of 4, 4 and 2; in pairs of batches two, of 8 and 2.
TEST_F(Cli, TheLastBatchOfAnEpochIsSmaller) {
  Array x = make_array(ElementType::u8, {10, 3, 32, 32});
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<std::byte>(i * 31 % 253);
  write_npz(path("t.npz"), {{"x", x}, {"y", make_array(ElementType::i64, {10})}});
  const Json each = train("--epochs 2 --data t.npz --eval-data t.npz");
  EXPECT_EQ(each["steps"], 6);
  EXPECT_EQ(each["samples"], 20);
  EXPECT_EQ(each["eval_samples"], 10);
  EXPECT_EQ(each["measured_peak_bytes"], each["predicted_peak_bytes"]);
  const Json pairs = train("--epochs 2 --data t.npz --accumulate 2 --log t.jsonl");
  EXPECT_EQ(pairs["steps"], 4);
  EXPECT_EQ(pairs["samples"], 20);
  EXPECT_EQ(pairs["measured_peak_bytes"], pairs["predicted_peak_bytes"]);
  std::istringstream log(text("t.jsonl"));
  std::vector<int> samples;
  for (std::string line; std::getline(log, line);) samples.push_back(Json::parse(line)["samples"]);
  EXPECT_EQ(samples, (std::vector<int>{8, 2, 8, 2}));
}

// Evaluation at another batch size finds the same: every sample counts once.
TEST_F(Cli, EvaluationDoesNotDependOnTheBatch) {
  Array x = make_array(ElementType::u8, {7, 3, 32, 32});
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<std::byte>(i * 17 % 251);
  write_npz(path("b.npz"), {{"x", x}, {"y", make_array(ElementType::i64, {7})}});
  std::vector<double> losses;
  for (const char* batch : {"1", "3", "7"}) {
    // A step with no learning rate leaves the weights as they are initialised, whatever its batch.
    const Json object =
        json("train mlp --width 0.1 --image 32 --classes 4 --lr 0 --momentum 0 --steps 1 --eval-data b.npz --batch " +
             std::string(batch));
    EXPECT_EQ(object["eval_samples"], 7);
    losses.push_back(object["eval_loss"]);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5);
  EXPECT_NEAR(losses[0], losses[2], 1e-5);
}

TEST_F(Cli, ResumesInTheMiddleOfAnEpochOfAccumulatedBatches) {
  const std::string task = "train " + kModel + " --accumulate 3 --optimizer adamw --steps 7";
  const Json whole = json(task);
  run("train " + kModel + " --accumulate 3 --optimizer adamw --steps 3 --checkpoint a");
  const Json resumed = json(task + " --checkpoint a --resume");
  EXPECT_EQ(resumed["params_sha256"], whole["params_sha256"]);
  EXPECT_EQ(resumed["states_sha256"], whole["states_sha256"]);
}

// The loss of evaluation stands still with no learning rate; the second evaluation is the first that is no better.
TEST_F(Cli, PatienceEndsARun) {
  const std::string task = "train mlp --width 0.1 --image 8 --classes 4 --batch 4 --lr 0 --momentum 0 --steps 100 --eval-every 5 ";
  Array x = make_array(ElementType::u8, {6, 3, 8, 8});
  write_npz(path("p.npz"), {{"x", x}, {"y", make_array(ElementType::i64, {6})}});
  const Result stopped = run(task + "--patience 3 --eval-data p.npz --checkpoint p --json");
  EXPECT_NE(stopped.err.find("stopped after step 20 of 100: 3 evaluations were no better than that of step 5"), std::string::npos)
      << stopped.err;
  const Json object = Json::parse(stopped.out);
  EXPECT_EQ(object["steps"], 20);
  EXPECT_EQ(object["stopped_by"], "patience");
  EXPECT_TRUE(std::filesystem::exists(path("p/best.safetensors")));
  const Result again = run(task + "--patience 3 --eval-data p.npz --checkpoint p --resume");
  EXPECT_EQ(again.status, 0);
  EXPECT_NE(again.err.find("3 evaluations were no better than that of step 5"), std::string::npos) << again.err;
}

TEST_F(Cli, ListsWhatThereIs) {
  EXPECT_NE(run("models").out.find("resnet50"), std::string::npos);
  EXPECT_NE(run("ops").out.find("conv2d(x, weight, bias?)"), std::string::npos);
  EXPECT_NE(run("ops conv2d").out.find("padding="), std::string::npos);
  EXPECT_NE(run("devices").out.find("cpu"), std::string::npos);
  EXPECT_TRUE(run("version").out.starts_with("outsize "));
  EXPECT_EQ(run("--version").out, run("version").out);
  EXPECT_EQ(json("--version"), json("version"));
  EXPECT_EQ(json("version")["version"].get<std::string>(), run("version").out.substr(8, run("version").out.size() - 9));
  EXPECT_GT(json("models")["rows"].size(), 10U);
  EXPECT_GT(json("ops")["rows"].size(), 10U);
  EXPECT_EQ(run("train --help").status, 0);
}

// What one command measures, later ones know.
TEST_F(Cli, ProfilesAreMeasuredAndKept) {
  setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
  const auto plan = [&](const std::string& more) { return json("plan " + kModel + " --planner keep " + more); };
  EXPECT_EQ(plan("")["profile"], "roofline");
  EXPECT_FALSE(std::filesystem::exists(path("cache")));
  const Json measured = plan("--profile measured");
  EXPECT_EQ(measured["profile"], "measured");
  EXPECT_EQ(measured["measured_ops"], measured["distinct_ops"]);
  EXPECT_GT(measured["measured_ops"], 20);
  EXPECT_EQ(measured["keep_step_s"], measured["step_s"]);
  const Json kept = plan("");
  EXPECT_EQ(kept["profile"], "measured");
  EXPECT_EQ(kept["step_s"], measured["step_s"]);
  EXPECT_EQ(kept["lower_bound_s"], measured["lower_bound_s"]);
  // Only what was disturbed is timed again, and only a shorter time is kept.
  const double step = plan("--profile measured")["step_s"];
  EXPECT_LE(step, measured["step_s"].get<double>());
  EXPECT_EQ(plan("")["step_s"], step);
  EXPECT_EQ(plan("--threads 1 --profile roofline")["profile"], "roofline");
  EXPECT_EQ(plan("--device v100")["profile"], "roofline");
  EXPECT_EQ(train("--steps 1 --planner keep")["predicted_step_s"], step);
  EXPECT_EQ(json("plan resnet18 --width 0.125 --image 32 --batch 5 --classes 5 --planner keep")["profile"], "partly");
  // A scale says how many ops it rests on. Those of so small a network are too short for one.
  write("scaled.profile", "device name=cpu\nscale 2 12 conv2d\nscale 3 4 relu_grad\nscale 5 3 no_such_op\n");
  const Json scaled = plan("--profile scaled.profile");
  EXPECT_EQ(scaled["profile"], "roofline");
  EXPECT_GT(scaled["scaled_ops"], 2);
  EXPECT_EQ(scaled["scales"], Json::parse(R"({"conv2d": {"ratio": 2, "ops": 12}, "relu_grad": {"ratio": 3, "ops": 4}})"));
  EXPECT_NE(run("plan " + kModel + " --planner keep --profile scaled.profile")
                .out.find(fmt::format("; {} more by 4 or more measured ones of their kind", scaled["scaled_ops"].get<int>())),
            std::string::npos);
  EXPECT_EQ(measured["scales"], Json::object());

  ASSERT_EQ(std::distance(std::filesystem::directory_iterator(path("cache/outsize")), {}), 1);
  const std::filesystem::path file = std::filesystem::directory_iterator(path("cache/outsize"))->path();
  EXPECT_EQ(plan("--profile '" + file.string() + "'")["step_s"], step);
  std::string disturbed;
  std::istringstream entries(read_text(file));
  for (std::string line; std::getline(entries, line);)
    if (!line.starts_with("disturbed ")) disturbed += line + "\n";
  for (std::size_t at = disturbed.find("\nop "), k = 0; k < 2; ++k, at = disturbed.find("\nop ", at + 1)) {
    const std::size_t signature = disturbed.find(' ', at + 4) + 1;
    disturbed += "disturbed " + disturbed.substr(signature, disturbed.find('\n', signature) - signature) + "\n";
  }
  write("disturbed.profile", disturbed);
  EXPECT_EQ(plan("--profile disturbed.profile")["disturbed_ops"], 2);
  EXPECT_EQ(run("plan " + kModel + " --planner keep --profile disturbed.profile").err,
            fmt::format("outsize: something else ran while 2 of the {} measured ops were timed, which may be faster than that; "
                        "--profile measured times them again\n",
                        measured["measured_ops"].get<int>()));
  // Ops that are said to take no time stay so, unless all are timed anew.
  std::string forged;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("op ")) line = "op 0" + line.substr(line.find(' ', 3));
    forged += line + "\n";
  }
  write("cache/outsize/" + file.filename().string(), forged);
  const double of_nothing = plan("--profile measured")["step_s"];
  EXPECT_LT(of_nothing, step / 4);
  EXPECT_GT(plan("--profile fresh")["step_s"], 4 * of_nothing);
  EXPECT_GT(plan("")["step_s"], 4 * of_nothing);
  write("cache/outsize/" + file.filename().string(), "no profile\n");
  const Result result = run("plan " + kModel + " --planner keep");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  EXPECT_NE(result.out.find("predicted from 0 measured ops of "), std::string::npos) << result.out;
}

TEST_F(Cli, DevicesAreMeasuredAndListed) {
  const Json object = json("devices --spill .");
  const Json& machine = object["machine"];
  for (const char* key :
       {"cores", "memory_bytes", "free_bytes", "threads", "flops", "bandwidth", "link", "link_both", "disk_out", "disk_in"})
    EXPECT_GT(machine[key].get<double>(), 0) << key;
  EXPECT_FALSE(machine["processor"].get<std::string>().empty());
  EXPECT_FALSE(json("devices --threads 1")["machine"].contains("disk_out"));
  // What is not the processor's is from data sheets.
  for (const Json& row : object["rows"])
    if (row["name"] == "v100-pcie-16") {
      EXPECT_EQ(row["link_out"], 12.2e9);
      EXPECT_EQ(row["full_duplex"], false);
      EXPECT_EQ(row["tf32_flops"], 0);
    } else if (row["name"] == "a100-40") {
      EXPECT_EQ(row["flops"], 19.5e12);
      EXPECT_EQ(row["tf32_flops"], 156e12);
    }
  // The table lines up: its last column ends where its title does.
  std::istringstream lines(run("devices").out);
  std::size_t width = 0, rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("--device ")) width = line.size();
    if (width == 0) continue;
    EXPECT_EQ(line.size(), width) << line;
    ++rows;
  }
  EXPECT_EQ(rows, object["rows"].size() + 1);
}

// Names in the forms that people write; the budget is the device's memory, of which this machine knows nothing.
TEST_F(Cli, PlansForDevicesThatAreNotHere) {
  for (const auto& [given, name, gibibytes] :
       std::vector<std::tuple<std::string, std::string, std::int64_t>>{{"rtx3090", "rtx-3090-24", 24},
                                                                       {"titan-rtx", "titan-rtx-24", 24},
                                                                       {"GTX_1080Ti", "gtx-1080ti-11", 11},
                                                                       {"h100", "h100-80", 80}}) {
    const Json object = json("plan " + kModel + " --device " + given);
    EXPECT_EQ(object["device"], name);
    EXPECT_EQ(object["budget_bytes"].get<std::int64_t>(), gibibytes << 30);
  }
  EXPECT_EQ(json("plan " + kModel + " --device rtx3090 --memory 1GiB")["budget_bytes"], 1 << 30);
  // Cards that multiply faster in TF32 are planned for so, unless strict f32 is asked for.
  const auto step = [&](const std::string& flags) {
    return json("plan vgg16 --batch 64 --planner keep --device " + flags)["step_s"].get<double>();
  };
  EXPECT_GT(step("h200 --precision f32"), 2 * step("h200"));
  EXPECT_EQ(step("h200 --precision tf32"), step("h200"));
  EXPECT_EQ(step("titan-rtx --precision f32"), step("titan-rtx"));
}

TEST_F(Cli, SelfcheckSaysWhatItLookedAt) {
  const Json object = json("selfcheck --backend cuda-host");
  EXPECT_TRUE(object["well"]);
  EXPECT_EQ(object["backend"], "cuda-host");
  std::vector<std::string> names;
  for (const Json& part : object["parts"]) {
    names.push_back(part["name"]);
    EXPECT_TRUE(part["well"]) << part;
    EXPECT_TRUE(part["wrong"].empty());
    EXPECT_FALSE(part["found"].get<std::string>().empty());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"link", "ops in f32", "plan: keep", "plan: recompute", "plan: swap", "plan: tiles",
                                             "plan: disk"}));
  const Result text = run("selfcheck --backend cpu");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_LE(std::count(text.out.begin(), text.out.end(), '\n'), 24) << text.out;
  EXPECT_NE(text.out.find("all is well"), std::string::npos) << text.out;
}

TEST_F(Cli, SelfcheckWithoutACardSaysSo) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // where there is a card, it is not seen
  const Result result = run("selfcheck --json");
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(result.status, 2);
  const Json object = Json::parse(result.out);
  EXPECT_EQ(object["status"], 2);
  EXPECT_EQ(object["error"].get<std::string>().find("--backend cuda: "), 0U) << object;
}

TEST_F(Cli, HelpEndsWithExamplesThatWork) {
  write("net.graph", R"(graph net
input x f32[2, 3, 8, 8]
input labels i32[2]
param weight f32[4, 192] init=normal:0.1
flatten: f = reshape(x) shape=[2, 192]
head: z = linear(f, weight)
loss: loss = softmax_cross_entropy(z, labels)
output loss
)");
  write_npz(path("train.npz"), {{"x", make_array(ElementType::u8, {6, 3, 8, 8})}, {"y", make_array(ElementType::i64, {6})}});
  for (const std::string kind : {"photos/cat", "photos/dog"}) {
    std::filesystem::create_directories(path(kind));
    for (int i = 0; i < 4; ++i)
      write_png(path(kind + "/" + std::to_string(i) + ".png"),
                Pixels::make(40, 32, 3, [i](int row, int column, int channel) { return 9 * row + 5 * column * channel + 40 * i; }));
  }
  for (const std::string command :
       {"train", "plan", "compare", "fit", "models", "planners", "ops", "devices", "selfcheck", "completion", "version"}) {
    const std::string help = run(command + " --help").out;
    EXPECT_TRUE(help.starts_with("Usage: outsize " + command)) << help;
    std::istringstream lines(help.substr(std::min(help.find("Examples:\n"), help.size())));
    int examples = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 110U) << line;
      if (!line.starts_with("  outsize ")) continue;
      ++examples;
      const Result result = run(line.substr(std::string("  outsize ").size()));
      EXPECT_EQ(result.status, 0) << line << "\n" << result.err;
    }
    EXPECT_GE(examples, 1) << help;
  }
  const std::string train = run("train --help").out;
  for (const char* section : {"Run:", "Model:", "Data:", "Optimizer:", "Plan:", "Files:", "Every command:"})
    EXPECT_NE(train.find(std::string("\n") + section + "\n"), std::string::npos) << section;
  const Result alone = run("");
  EXPECT_EQ(alone.status, 2);
  EXPECT_LT(std::count(alone.err.begin(), alone.err.end(), '\n'), 24) << alone.err;
}

// Nobody may be there to be told.
TEST_F(Cli, AStandardErrorThatFailsEndsNothing) {
  const std::string program = "cd '" + path(".") + "' && '" OUTSIZE_PROGRAM "' ";
  const auto status_of = [](const std::string& line) {
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const Json whole = train("--steps 3");
  for (const char* const way : {"2>/dev/full", "2>&-"}) {
    const std::string more = "train " + kModel + " --steps 3 --print-every 1 --checkpoint d ";
    EXPECT_EQ(status_of(program + more + "--json >out " + way), 0) << way;
    EXPECT_EQ(Json::parse(text("out"))["params_sha256"], whole["params_sha256"]);
    EXPECT_EQ(status_of(program + more + ">out " + way), 2) << way;  // refused: --resume is not given
    EXPECT_EQ(status_of(program + more + "--resume >out " + way), 0) << way;
    EXPECT_TRUE(std::filesystem::exists(path("d/checkpoint-000000003.json")));
    std::filesystem::remove_all(path("d"));
    EXPECT_EQ(status_of(program + "train " + kModel + " --steps 2 --print-every 1 >out " + way), 0) << way;
    EXPECT_EQ(status_of(program + "train " + kModel + " --steps 2 --memory 1KiB >out " + way), 1) << way;
    EXPECT_EQ(status_of(program + ">out " + way), 2) << way;
    EXPECT_EQ(status_of(program + "models >/dev/full " + way), 2) << way;
  }
}

TEST_F(Cli, ARunOutlivesItsLog) {
  const std::string task = "train " + kModel + " --steps 3 --checkpoint-every 1 --log /dev/full --checkpoint ";
  const Result result = run(task + "d --print-every 9");
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("outsize: /dev/full: cannot be written: No space left on device; the run goes on, and lines of its log "
                            "are lost\n"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("outsize: /dev/full: 3 lines could not be written: No space left on device\n"), std::string::npos)
      << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 3) << result.err;  // and the line of the last step
  EXPECT_NE(result.out.find("parameters"), std::string::npos) << result.out;
  EXPECT_TRUE(std::filesystem::exists(path("d/checkpoint-000000003.json")));

  const Result object = run(task + "e --json");
  EXPECT_EQ(object.status, 2);
  EXPECT_EQ(Json::parse(object.out)["log_failure"], "/dev/full: 3 lines could not be written: No space left on device");
  EXPECT_EQ(Json::parse(object.out)["params_sha256"], train("--steps 3")["params_sha256"]);
}

// A log that finds no room ends with a whole line.
TEST_F(Cli, NoHalfLineIsLeftInALog) {
  // Of 2 blocks of 512 bytes (dash) or 1024 (bash).
  const std::string line = "cd '" + path(".") + "' && ulimit -f 2 && '" OUTSIZE_PROGRAM "' train " + kModel +
                           " --steps 40 --log log --print-every 99 >/dev/null 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 2);
  std::istringstream lines(text("log"));
  std::int64_t step = 0;
  for (std::string one; std::getline(lines, one);) EXPECT_EQ(Json::parse(one)["step"], ++step);
  EXPECT_GT(step, 3);
  EXPECT_LT(step, 40);
}

// What was printed but has not arrived is an error, however the output fails.
TEST_F(Cli, OutputThatIsLostIsNoticed) {
  const std::string begin = "cd '" + path(".") + "' && ", program = "'" OUTSIZE_PROGRAM "' ";
  for (const std::string& line : {
           program + "ops --json >/dev/full",
           program + "models >/dev/full",
           program + "train --help >/dev/full",
           program + "version >&-",
           "(ulimit -f 2; " + program + "ops --json >small)",
           // A pipe that nobody reads any more, where the signal of it is ignored.
           "mkfifo pipe && trap '' PIPE && (true <pipe & exec 3>pipe; wait; " + program + "ops --json >&3)",
       }) {
    EXPECT_EQ(WEXITSTATUS(std::system((begin + "(" + line + ") 2>stderr").c_str())), 2) << line;
    EXPECT_TRUE(text("stderr").starts_with("outsize: standard output: cannot write to file: ")) << line << "\n" << text("stderr");
  }
}

}  // namespace
}  // namespace outsize
