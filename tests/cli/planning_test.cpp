// Whether, how and how far a model fits: compare, fit, plan --explain, and what a refusal advises.
#include <algorithm>
#include <map>
#include <sstream>

#include "../write_npz.h"
#include "cli.h"
#include "program/offsets.h"

namespace outsize {
namespace {

// As kModel, but with maps enough beside its parameters that recomputation tells.
const std::string kSizes = "resnet18 --width 0.125 --image 32 --classes 5";
const std::string kLarger = kSizes + " --batch 32";

std::vector<std::string> planner_names(const Json& planners) {
  std::vector<std::string> names;
  for (const Json& row : planners["rows"]) names.push_back(row["name"]);
  return names;
}

// The lines of a table: from the one that begins with "planner" on.
std::vector<std::string> table_of(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> table;
  for (std::string line; std::getline(lines, line);)
    if (!table.empty() || line.starts_with("planner")) table.push_back(line);
  return table;
}

void expect_aligned(const std::vector<std::string>& table) {
  ASSERT_FALSE(table.empty());
  for (const std::string& line : table) EXPECT_EQ(line.size(), table.front().size()) << line;
}

TEST_F(Cli, ComparesEveryPlanner) {
  const Json object = json("compare " + kLarger + " --memory 95%");
  std::vector<std::string> expected = planner_names(json("planners")), found;
  for (const Json& row : object["rows"]) found.push_back(row["planner"]);
  std::ranges::sort(expected);
  std::ranges::sort(found);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(object["fits"], true);
}

// The planners that are this project's own stand beside those of papers, and each says which it is of.
TEST_F(Cli, SaysWhoseAPlannerIs) {
  const std::map<std::string, std::string> expected{{"keep", "frameworks"}, {"tsplit", "TSPLIT"}, {"2ps-h", "LR-CNN"},
                                                    {"stream", "ours"},     {"remake", "ours"},   {"checkpoint", "Chen 2016"}};
  int listed = 0;
  const Json all = json("planners")["rows"];
  for (const Json& row : all) {
    EXPECT_FALSE(row["source"].get<std::string>().empty()) << row["name"];
    const auto known = expected.find(row["name"]);
    if (known == expected.end()) continue;
    EXPECT_EQ(row["source"], known->second);
    ++listed;
  }
  EXPECT_EQ(listed, 6);
  // Refused ones too; of a plan that keep's takes the place of, its planner's.
  const std::string command = "compare " + kLarger + " --memory 95% --planners keep,stream,tsplit";
  const Json rows = json(command)["rows"];
  ASSERT_EQ(rows.size(), 3U);
  for (const Json& row : rows) EXPECT_EQ(row["planner_source"], expected.at(row["planner"]));
  EXPECT_EQ(json("plan " + kLarger + " --planner stream")["planner_source"], "ours");
  const std::vector<std::string> table = table_of(run(command).out);
  expect_aligned(table);
  const auto has = [&](const std::string& planner, const std::string& source) {
    return std::ranges::any_of(table, [&](const std::string& line) {
      return line.find(planner + " ") != std::string::npos && line.find(" " + source + " ") != std::string::npos;
    });
  };
  EXPECT_TRUE(has("planner", "from"));
  EXPECT_TRUE(has("stream", "ours"));
  EXPECT_TRUE(has("tsplit", "TSPLIT"));
  EXPECT_FALSE(has("tsplit", "ours"));
}

// A row is what `plan` says of that planner, but for the time of planning.
TEST_F(Cli, ARowIsAPlansAnswer) {
  const std::string budget = " --memory 95%";
  const Json object = json("compare " + kLarger + budget + " --planners recompute-cheap,keep");
  ASSERT_EQ(object["rows"].size(), 2U);
  for (Json row : object["rows"]) {
    const std::string name = row["planner"];
    const Result result = run("plan " + kLarger + budget + " --json --planner " + name);
    Json plan = Json::parse(result.out);
    EXPECT_EQ(result.status, row["fits"] ? 0 : 1);
    for (const char* own : {"smallest_budget_bytes", "fitting_planners", "untried_planners", "fitting_batch", "fitting_command",
                            "peak_at", "profile", "measured_ops", "disturbed_ops", "distinct_ops", "scaled_ops", "scales"})
      plan.erase(own);
    // The advice stands in the place of the refusal's last sentence.
    for (const char* other : {"plan_seconds", "error"}) {
      plan.erase(other);
      row.erase(other);
    }
    EXPECT_EQ(row, plan);
  }
  // 95 % of what keep needs is not enough for keep, and is for the other.
  EXPECT_EQ(object["rows"][0]["planner"], "recompute-cheap");
  EXPECT_EQ(object["rows"][0]["fits"], true);
  EXPECT_EQ(object["rows"][1]["fits"], false);
  const std::int64_t keep = object["rows"][1]["keep_peak_bytes"], budget_bytes = object["budget_bytes"];
  EXPECT_EQ(object["rows"][1]["missing_bytes"], keep - budget_bytes);
}

// A comma stands between planners and between options. `planner` stays the plain name.
TEST_F(Cli, PlannersTakeOptions) {
  const Json compared =
      json("compare " + kLarger + " --planners offload-ratio:ratio=1,keep,tflms:lb=2,n_tensors=3,excl_types=max_pool");
  std::map<std::string, Json> options;
  for (const Json& row : compared["rows"]) options[row["planner"]] = row["planner_options"];
  EXPECT_EQ(options, (std::map<std::string, Json>{
                         {"keep", Json::object()},
                         {"offload-ratio", {{"ratio", 1.0}}},
                         {"tflms", {{"excl_types", Json::array({"max_pool"})}, {"n_tensors", 3}, {"lb", 2}}},
                     }));
  const std::string ratio = "plan " + kLarger + " --host-memory 1GiB --planner offload-ratio:ratio=";
  EXPECT_EQ(json(ratio + "0")["swapped_bytes"], 0);
  EXPECT_GT(json(ratio + "1")["swapped_bytes"], 0);
  // One segment is the last, which is not made again.
  const std::string segments = "plan " + kLarger + " --planner checkpoint:segments=";
  EXPECT_EQ(json(segments + "1")["recomputed_ops"], 0);
  EXPECT_GT(json(segments + "4")["recomputed_ops"], 0);
  // What is made again on the way to one reader is made again for the next: in a network whose cheap ops stand in rows.
  const std::string again =
      "plan convnext-tiny --width 0.25 --image 64 --batch 4 --host-memory 1GiB --planner superneurons:recompute=";
  EXPECT_GT(json(again + "memory")["recomputed_ops"], json(again + "speed")["recomputed_ops"]);
  EXPECT_NE(run(ratio + "1").out.find("offload-ratio:ratio=1\n"), std::string::npos);
  EXPECT_EQ(train("--steps 1 --host-memory 1GiB --planner superneurons:recompute=memory")["planner_options"],
            (Json{{"recompute", "memory"}}));
  EXPECT_EQ(json("fit " + kSizes + " --memory 1GiB --probe-limit 0 --planners checkpoint:segments=2")["rows"][0]["planner_options"],
            (Json{{"segments", 2}}));
}

TEST_F(Cli, ListsPlannersWithTheirOptions) {
  const Json all = json("planners")["rows"];
  EXPECT_EQ(std::ranges::count(all, Json("dynprog"), [](const Json& row) { return row["name"]; }), 1);
  for (const Json& row : all) {
    if (row["name"] != "dynprog") continue;
    EXPECT_EQ(row["options"][0]["name"], "slots");
    EXPECT_EQ(row["options"][0]["default"], "500");
    EXPECT_EQ(row["options"][0]["expects"], "a whole number from 1 to 10000");
  }
  const std::string out = run("planners").out;
  EXPECT_NE(out.find("\n  slots "), std::string::npos) << out;
  EXPECT_NE(out.find("[500]\n"), std::string::npos) << out;
}

TEST_F(Cli, ComparedPlannersAreInOrder) {
  for (const char* budget : {"", " --memory 95%"}) {
    const Json rows = json("compare " + kLarger + budget)["rows"];
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const Json &a = rows[i - 1], &b = rows[i];
      EXPECT_GE(a["fits"].get<bool>(), b["fits"].get<bool>());
      if (b["fits"]) {
        EXPECT_LE(a["step_s"], b["step_s"]);
      } else if (!a["fits"].get<bool>() && b["missing_bytes"].is_number()) {
        // Of a tier that is not there nobody can give more.
        if (a["missing_tier"] == b["missing_tier"]) {
          EXPECT_LE(a["missing_bytes"], b["missing_bytes"]);
        } else {
          EXPECT_EQ(a["missing_tier"], "device");
        }
      }
    }
  }
  const Result text = run("compare " + kLarger + " --memory 95%");
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(text.err, "");  // no progress where there is no terminal
  expect_aligned(table_of(text.out));
}

TEST_F(Cli, NoneOfTheComparedFits) {
  const Result result = run("compare " + kLarger + " --memory 64KiB --json --planners keep,recompute-cheap");
  EXPECT_EQ(result.status, 1);
  const Json object = Json::parse(result.out);
  EXPECT_EQ(object["fits"], false);
  EXPECT_EQ(object["rows"].size(), 2U);
  for (const Json& row : object["rows"]) EXPECT_TRUE(row["step_s"].is_null());
  // There is no --planner here to try another of.
  EXPECT_TRUE(result.err.starts_with("outsize: no planner fits; the nearest: planner ")) << result.err;
  const std::string refusal = result.err.substr(0, result.err.find(". This fits: "));
  EXPECT_EQ(refusal.find("--planner"), std::string::npos) << refusal;
}

// What swaps needs more host memory than that; `keep` lacks memory of the device.
TEST_F(Cli, RefusalsSayWhatLacks) {
  const std::string budgets = kLarger + " --memory 80% --host-memory 64KiB";
  const Json rows = Json::parse(run("compare " + budgets + " --json --planners keep,vdnn-all").out)["rows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["planner"], "keep");
  EXPECT_EQ(rows[0]["missing_tier"], "device");
  EXPECT_EQ(rows[0]["peak_bytes"], rows[0]["keep_peak_bytes"]);
  EXPECT_EQ(rows[1]["missing_tier"], "host");
  EXPECT_TRUE(rows[1]["peak_bytes"].is_null());
  for (const std::string command : {"plan ", "train "}) {
    const Json refused = Json::parse(run(command + budgets + " --json --advice 0 --planner vdnn-all").out);
    EXPECT_EQ(refused["missing_tier"], "host");
    EXPECT_EQ(refused["missing_bytes"], rows[1]["missing_bytes"]);
  }
  const std::vector<std::string> table = table_of(run("compare " + budgets + " --planners keep,vdnn-all").out);
  expect_aligned(table);
  EXPECT_NE(table.back().find(" of host"), std::string::npos) << table.back();
}

// What a plan takes beside the device is said, where it takes any.
TEST_F(Cli, SummariesSayWhatTheHostHolds) {
  const std::string budget = kLarger + " --memory 80% --host-memory 1GiB";
  EXPECT_NE(run("plan " + budget + " --planner vdnn-all").out.find("\nhost memory "), std::string::npos);
  EXPECT_EQ(run("plan " + kLarger + " --planner keep").out.find("host memory"), std::string::npos);
  const std::string trained = run("train " + budget + " --planner vdnn-all --steps 1").out;
  EXPECT_NE(trained.find("\nhost memory "), std::string::npos) << trained;
  EXPECT_NE(trained.find("which on a cpu is the same memory as the device's"), std::string::npos) << trained;
  // Nothing was measured where no step was left to be made.
  const std::string again = "train " + kLarger + " --steps 1 --checkpoint c";
  run(again);
  const std::string none = run(again + " --resume").out;
  EXPECT_EQ(none.find("measured,"), std::string::npos) << none;
}

// Whether a plan gives the bits of holding everything stands in the summary and in the object.
TEST_F(Cli, SummariesSayWhatResultsEqual) {
  const std::string task = "train " + kLarger + " --steps 1 --memory ";
  EXPECT_NE(run(task + "95% --planner recompute-cheap").out.find("holding everything, bit by bit\n"), std::string::npos);
  EXPECT_EQ(Json::parse(run(task + "95% --planner recompute-cheap --json").out)["rounding"], false);
  EXPECT_NE(run(task + "60% --planner 2ps-h").out.find("holding everything, to rounding\n"), std::string::npos);
  EXPECT_EQ(Json::parse(run(task + "60% --planner 2ps-h --json").out)["rounding"], true);
}

TEST_F(Cli, WhatIsEnoughForKeepIsEnoughForAll) {
  const Json object = json("compare " + kModel + " --memory 100%");
  for (const Json& row : object["rows"]) {
    EXPECT_EQ(row["fits"], true) << row["planner"];
    EXPECT_LE(row["peak_bytes"], row["keep_peak_bytes"]) << row["planner"];
  }
}

TEST_F(Cli, OwnSizesArePlannedForTheModelsOwn) {
  for (const std::string command : {"plan ", "compare --planners keep "}) {
    const Result result = run(command + "resnet18 --width 0.125 --batch 1 --image own");
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err,
              "outsize: --image own: only `train` sees the samples; this is planned for [1, 3, 224, 224], the model's own size. "
              "--image HxW plans for another\n");
  }
}

// What fit finds, plan confirms: the largest fits with the same figures, and one more does not.
class Fitted : public Cli {
 protected:
  void expect_largest(const std::string& model, const std::string& rest, const std::string& by, double step) const {
    const Json object = json("fit " + model + rest + " --planners keep,recompute-cheap --by " + by);
    ASSERT_EQ(object["rows"].size(), 2U);
    for (const Json& row : object["rows"]) {
      const double largest = row["largest"];
      const std::string plan = "plan " + model + rest + " --json --planner " + row["planner"].get<std::string>() + " --" + by + " ";
      const Json fits = Json::parse(run(plan + fmt::format("{}", largest)).out);
      EXPECT_EQ(fits["fits"], true) << plan << largest;
      EXPECT_EQ(fits["peak_bytes"], row["peak_bytes"]);
      EXPECT_EQ(fits["step_s"], row["step_s"]);
      EXPECT_NEAR(row["throughput"].get<double>(), row["batch"].get<double>() / row["step_s"].get<double>(), 1e-6);
      const Json refused = Json::parse(run(plan + fmt::format("{}", largest + step)).out);
      EXPECT_EQ(refused["fits"], false) << plan << largest + step;
      EXPECT_EQ(refused["missing_bytes"], row["missing_bytes"]);
    }
    EXPECT_GE(object["rows"][1]["largest"], object["rows"][0]["largest"]);
  }
};

// Programs of several kinds share weights, states and sums wherever the planner has put them.
TEST_F(Cli, EveryPlannerAccumulatesAndEvaluatesAlike) {
  const std::string task =
      "train resnet18 --image 32 --width 0.125 --batch 2 --classes 5 --accumulate 3 --optimizer adamw --clip-norm 1 --steps 2 "
      "--eval-data e.npz --eval-every 1 --json --planner ";
  Array x = make_array(ElementType::u8, {6, 3, 32, 32});
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<std::byte>(i % 251);
  write_npz(path("e.npz"), {{"x", x}, {"y", make_array(ElementType::i64, {6})}});
  const Json keep = Json::parse(run(task + "keep").out), all = Json::parse(run("planners --json").out)["rows"];
  ASSERT_EQ(all[0]["name"], "auto");
  ASSERT_EQ(all[1]["name"], "keep");
  for (const Json& planner : all) {
    const std::string name = planner["name"];
    // In a card's two tiers; and on a plain machine, whose lower tier is its disk.
    for (const std::string tier : {" --host-memory 1GiB", " --spill ."}) {
      const Result result = run(task + name + tier);
      ASSERT_EQ(result.status, 0) << name << tier << ": " << result.err;
      const Json object = Json::parse(result.out);
      EXPECT_EQ(object["params_sha256"], keep["params_sha256"]) << name << tier;
      EXPECT_EQ(object["eval_loss"], keep["eval_loss"]) << name << tier;
      EXPECT_EQ(object["measured_peak_bytes"], object["predicted_peak_bytes"]) << name << tier;
      EXPECT_EQ(object["measured_disk_bytes"], object["disk_bytes"]) << name << tier;
      EXPECT_TRUE(tier.starts_with(" --host") || object["host_bytes"] == 0) << name;
    }
  }
}

TEST_F(Fitted, Batch) { expect_largest(kSizes, " --memory 6MiB", "batch", 1); }
TEST_F(Fitted, BatchOfTokens) { expect_largest("gpt2 --width 0.1 --seq 16 --classes 50", " --memory 40MiB", "batch", 1); }
TEST_F(Fitted, Width) { expect_largest("vgg11 --image 32 --batch 2 --classes 5", " --memory 20MiB", "width", 1.0 / 16); }
// Four poolings that are joined again: multiples of 16.
TEST_F(Fitted, Image) { expect_largest("unet2d --width 0.0625 --batch 1", " --memory 8MiB", "image", 16); }
TEST_F(Fitted, Volume) { expect_largest("unet3d --width 0.0625 --batch 1", " --memory 8MiB", "image", 8); }

TEST_F(Fitted, BatchOfAFile) {
  std::filesystem::copy(OUTSIZE_TESTS "/skeleton/skeleton.graph", path("s.graph"));
  // Its reshape is for two samples alone.
  EXPECT_EQ(json("fit s.graph --planners keep --memory 1GiB")["rows"][0]["largest"], 2);
}

TEST_F(Fitted, Depth) {
  const std::string rest = " --width 0.125 --image 32 --batch 4 --classes 5 --planners keep ";
  const std::int64_t deeper =
      json("plan resnet101 --width 0.125 --image 32 --batch 4 --classes 5 --planner keep")["keep_peak_bytes"];
  const Json row = json(fmt::format("fit resnet18{} --by depth --memory {}", rest, deeper))["rows"][0];
  EXPECT_EQ(row["largest"], 101);
  EXPECT_EQ(row["model"], "resnet101");
  EXPECT_LE(row["peak_bytes"], deeper);
  EXPECT_EQ(json(fmt::format("fit resnet152{} --by depth --memory {}", rest, deeper - 1))["rows"][0]["largest"], 50);
}

TEST_F(Fitted, NothingFits) {
  const Result result = run("fit resnet18 --image 32 --memory 1MiB --json --planners keep");
  EXPECT_EQ(result.status, 1);
  const Json object = Json::parse(result.out);
  EXPECT_EQ(object["fits"], false);
  EXPECT_TRUE(object["rows"][0]["largest"].is_null());
  EXPECT_TRUE(result.err.starts_with("outsize: no batch fits: planner keep needs ")) << result.err;
  const std::string refusal = result.err.substr(0, result.err.find(". This fits: "));
  EXPECT_EQ(refusal.find("--planner"), std::string::npos) << refusal;
}

// No planner takes less than no time, so each is asked of one size: the model's own batch of 8.
TEST_F(Fitted, StopsWhereAPlannerTakesTooLong) {
  const std::string fit = "fit " + kSizes + " --memory 1GiB --probe-limit 0 --planners keep";
  const Json row = json(fit)["rows"][0];
  EXPECT_EQ(row["largest"], 8);
  EXPECT_EQ(row["stopped"], true);
  EXPECT_NE(run(fit).out.find("8 or more"), std::string::npos);
  const Result refused = run("fit " + kSizes + " --memory 1MiB --probe-limit 0 --planners keep");
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("no batch that was tried fits: "), std::string::npos) << refused.err;
}

// A planner in tiles takes a while for thousands of samples; what `keep` fits is there long before.
TEST_F(Fitted, RowsAreThereAsSoonAsTheyAreFound) {
  const std::string search = "fit resnet152 --image 64 --memory 2GiB --planners keep,2ps-h";  // the second takes a minute
  const Result killed = run_killed(search, 4000);
  EXPECT_NE(killed.out.find("\nkeep "), std::string::npos) << killed.out;
  EXPECT_EQ(killed.out.find("2ps-h"), std::string::npos) << killed.out;
  const Result interrupted = run_killed(search, 4000, "INT");
  EXPECT_TRUE(interrupted.out.starts_with(killed.out)) << interrupted.out;
  EXPECT_NE(interrupted.out.find("2ps-h"), std::string::npos) << interrupted.out;
  EXPECT_NE(interrupted.out.find(" or more  "), std::string::npos) << interrupted.out;
  EXPECT_EQ(interrupted.err, "outsize: stopped by SIGINT; what was found until then stands above\n");
}

// Each is asked of one size, however little time there is.
TEST_F(Fitted, EndsInTime) {
  const Json rows = json("fit " + kSizes + " --memory 1GiB --seconds 0 --planners keep,checkpoint")["rows"];
  for (const Json& row : rows) {
    EXPECT_EQ(row["largest"], 8);
    EXPECT_EQ(row["stopped"], true);
  }
}

TEST_F(Fitted, ATable) {
  const Result result = run("fit " + kSizes + " --memory 4MiB --planners keep,recompute-cheap");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  expect_aligned(table_of(result.out));
}

// The network of tests/skeleton under plans by hand. z is f32[2, 8, 16, 12]: 3072 elements, 12288 bytes where channels are not
// stored in blocks.
class Explained : public Cli {
 protected:
  Json explain(const std::string& plan, const std::string& value, const std::string& more = "") const {
    std::filesystem::copy(OUTSIZE_TESTS "/skeleton/skeleton.graph", path("s.graph"), std::filesystem::copy_options::skip_existing);
    write("s.plan", plan);
    return json("plan s.graph --plan s.plan --explain " + value + more);
  }
  // The texts of its events, in the order of the steps.
  static std::vector<std::string> events(const Json& object) {
    std::vector<std::string> texts;
    for (const Json& event : object["events"]) texts.push_back(event["text"]);
    return texts;
  }
  using Texts = std::vector<std::string>;
};

TEST_F(Explained, Kept) {
  const Json object = explain("plan skeleton by hand\nrest\n", "z", " --backend reference --device v100-pcie");
  EXPECT_EQ(object["residency"], Json({"kept"}));
  EXPECT_EQ(object["bytes"], 12288);
  EXPECT_EQ(object["producer"], "bn.apply");
  Texts users;
  for (const Json& use : object["uses"]) users.push_back(use["op"]);
  std::ranges::sort(users);
  EXPECT_EQ(users, (Texts{"conv2", "conv2.grad_weight"}));
  EXPECT_EQ(events(object), Texts{"made by op bn.apply"});
  ASSERT_EQ(object["stays"].size(), 1U);
  EXPECT_EQ(object["stays"][0]["tier"], "device");
  // Twice 12288 bytes at 12.2 GB/s, and 5 us to start each copy; the disk writes and reads 2 GB/s.
  EXPECT_NEAR(object["swap_host_s"].get<double>(), 2 * (5e-6 + 12288 / 12.2e9), 1e-12);
  EXPECT_GT(object["swap_disk_s"].get<double>(), object["swap_host_s"].get<double>());
  // A pointwise op is bound by its bytes: y read and z written at 900 GB/s, besides the few of the moments.
  EXPECT_GE(object["recompute_s"].get<double>(), 5e-6 + 2 * 12288 / 900e9);
  EXPECT_LE(object["recompute_s"].get<double>(), 5e-6 + 3 * 12288 / 900e9);
}

TEST_F(Explained, Swapped) {
  const Json object = explain("plan skeleton by hand\nuntil add\nout z host\ndrop z\nuntil conv2.grad_weight\nin z\nrest\n", "z",
                              " --host-memory 1GiB");
  EXPECT_EQ(object["residency"], Json({"swapped"}));
  EXPECT_EQ(events(object), (Texts{"made by op bn.apply", "swapped out to host after op conv2", "dropped after op conv2",
                                   "swapped in before op conv2.grad_weight"}));
  Texts tiers;
  for (const Json& stay : object["stays"]) tiers.push_back(stay["tier"]);
  std::ranges::sort(tiers);
  EXPECT_EQ(tiers, (Texts{"device", "device", "host"}));
  EXPECT_GT(object["idle_s"].get<double>(), 0);
}

TEST_F(Explained, Recomputed) {
  const Json object = explain("plan skeleton by hand\nuntil add\ndrop z\nuntil conv2.grad_weight\nrun bn.apply\nrest\n", "z");
  EXPECT_EQ(object["residency"], Json({"recomputed"}));
  EXPECT_EQ(events(object),
            (Texts{"made by op bn.apply", "dropped after op conv2", "made again by op bn.apply for op conv2.grad_weight"}));
}

TEST_F(Explained, TiledAndStreamed) {
  const std::string plan =
      "plan skeleton by hand\nstream x host\npass r.s driver=skip grid=[1, 1, 2, 1] ops=[shortcut]\n"
      "pass r.a driver=y grid=[1, 1, 2, 1] ops=[conv1]\nuntil conv1.grad_weight\n"
      "pass r.b driver=bn.apply.grad_apply grid=[1, 1, 2, 1] ops=[conv1.grad_weight]\n"
      "pass r.c driver=pool.grad grid=[1, 1, 2, 1] ops=[shortcut.grad_weight]\nrest\n";
  const Json y = explain(plan, "y", " --host-memory 1GiB");
  EXPECT_EQ(y["residency"], Json({"tiled"}));
  EXPECT_EQ(events(y), Texts{"made tile by tile in pass r.a"});
  const Json x = explain(plan, "x", " --host-memory 1GiB");
  EXPECT_EQ(x["residency"], Json({"streamed"}));
  EXPECT_TRUE(x["recompute_s"].is_null());
  for (const Json& use : x["uses"]) EXPECT_TRUE(use.contains("pass")) << use;
}

TEST_F(Explained, Text) {
  const std::string plan = "plan " + kLarger + " --planner recompute-cheap --explain ";
  const Result result = run(plan + "layer1.0.relu1");
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part : {"recomputed, by recompute-cheap", "made again by op layer1.0.bn1 for op ", "to swap", "the peak of"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  EXPECT_NE(run(plan + "conv1.weight").out.find("not possible: no op makes it"), std::string::npos);
  EXPECT_NE(run(plan + "conv1.weight.next").out.find("not possible: its op changes states"), std::string::npos);
}

// All that a refusal says would help does.
TEST_F(Cli, AdviceIsTrue) {
  const Json keep = json("plan " + kLarger + " --planner keep");
  for (const std::string command : {"plan ", "train "}) {
    const Result result = run(command + kLarger + " --planner keep --memory 95% --json");
    EXPECT_EQ(result.status, 1);
    const Json object = Json::parse(result.out);
    // keep has one plan; what another packing of it takes will do, and less will not.
    const std::int64_t smallest = object["smallest_budget_bytes"];
    EXPECT_LE(smallest, keep["peak_bytes"]);
    EXPECT_EQ(run("plan " + kLarger + fmt::format(" --planner keep --memory {}", smallest)).status, 0);
    EXPECT_EQ(run("plan " + kLarger + fmt::format(" --planner keep --memory {} --advice 0", smallest - kAlignment)).status, 1);
    EXPECT_NE(std::ranges::find(object["fitting_planners"], Json("recompute-cheap")), object["fitting_planners"].end());
    for (const Json& planner : object["fitting_planners"])
      EXPECT_EQ(run("plan " + kLarger + fmt::format(" --memory {} --planner ", object["budget_bytes"].get<std::int64_t>()) +
                    planner.get<std::string>())
                    .status,
                0);
    const std::string budget = fmt::format(" --planner keep --memory {} --batch ", object["budget_bytes"].get<std::int64_t>());
    const std::string model = "plan " + kSizes + budget;
    const std::int64_t batch = object["fitting_batch"];
    EXPECT_EQ(run(model + std::to_string(batch)).status, 0) << batch;
    EXPECT_EQ(run(model + std::to_string(batch + 1)).status, 1) << batch;
    EXPECT_NE(object["error"].get<std::string>().find("the peak is at op "), std::string::npos);
    EXPECT_NE(result.err.find(fmt::format("--batch {} fits with planner keep and --memory {}", batch,
                                          object["budget_bytes"].get<std::int64_t>())),
              std::string::npos)
        << result.err;
    EXPECT_EQ(
        "outsize: " + object["error"].get<std::string>() + ". This fits: " + object["fitting_command"].get<std::string>() + "\n",
        result.err);
    EXPECT_NE(result.err.find(fmt::format("--memory {} (", smallest)), std::string::npos) << result.err;
  }
}

// A run that accumulates or evaluates has programs beside its step's, which the budget must do for as well.
TEST_F(Cli, AdviceIsTrueOfAllPrograms) {
  const std::string sizes = "train resnet18 --image 48x40 --batch 2 --width 0.125 --classes 5 --steps 1 --json --planner tsplit";
  for (const std::string more : {" --accumulate 2", " --data synthetic --eval-every 1"}) {
    const Result refused = run(sizes + more + " --memory 40%");
    ASSERT_EQ(refused.status, 1) << more;
    const std::int64_t enough = Json::parse(refused.out)["smallest_budget_bytes"];
    EXPECT_EQ(run(sizes + more + fmt::format(" --memory {}", enough)).status, 0) << more << ": " << enough;
  }
}

// What host memory lacks is said beside what else would help.
TEST_F(Cli, AdviceTellsOfHostMemory) {
  const Result result = run("plan slide-s --image 256 --batch 1 --planner 2ps-h --memory 30% --host-memory 1MiB");
  EXPECT_EQ(result.status, 1);
  for (const char* part : {"Raise --host-memory, or give a --spill directory. ", " would do with planner 2ps-h"})
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
}

// Another planner, more memory, or none that would do: what stands in the last line can be pasted.
TEST_F(Cli, RefusalsEndWithACommandThatFits) {
  const auto ending = [](const Result& result) {
    EXPECT_EQ(result.status, 1) << result.err;
    const std::string words = ". This fits: outsize ";
    const std::size_t at = result.err.find(words);
    return at == std::string::npos ? std::string() : result.err.substr(at + words.size());
  };
  write("wide.plan", run("plan " + kLarger + " --planner keep --dump plan").out);
  for (const auto& [refused, part] : std::vector<std::pair<std::string, std::string>>{
           {"train " + kLarger + " --steps 1 --planner keep --memory 95% --log 'a log'",
            " --log 'a log' --planner recompute-cheap"},
           {"plan " + kLarger + " --memory=95% --plan wide.plan", " --memory=95% --planner recompute-cheap"},
           {"plan " + kLarger + " --no-split --planner tsplit --memory 40%", " --planner "},
           {"compare " + kLarger + " --memory 1MiB --planners keep,checkpoint", " --planners keep,checkpoint --memory "},
           {"fit " + kSizes + " --memory 100KiB --planners keep", " --planners keep --memory "}}) {
    const std::string command = ending(run(refused));
    EXPECT_NE(command.find(part), std::string::npos) << refused << ": " << command;
    const Result pasted = run(command.substr(0, command.find('\n')));
    EXPECT_EQ(pasted.status, 0) << command << pasted.err;
  }
  EXPECT_EQ(ending(run("plan " + kLarger + " --planner keep --memory 95% --advice 0")), "");
}

// What there was no time for is told apart from what does not help.
TEST_F(Cli, AdviceSaysWhatWasNotTried) {
  const std::string refused = "plan " + kLarger + " --planner keep --memory 95% --advice 0";
  const Json object = Json::parse(run(refused + " --json").out);
  for (const char* key : {"smallest_budget_bytes", "fitting_planners", "fitting_batch"}) EXPECT_TRUE(object[key].is_null()) << key;
  std::vector<std::string> others = planner_names(json("planners"));
  std::erase(others, "keep");
  std::erase(others, "auto");  // which would ask the others
  EXPECT_EQ(object["untried_planners"].get<std::vector<std::string>>(), others);
  const Result text = run(refused);
  EXPECT_EQ(text.status, 1);
  EXPECT_NE(text.err.find(". Planners recompute-cheap, checkpoint, "), std::string::npos) << text.err;
  EXPECT_TRUE(text.err.ends_with(" were not tried. No command was found that fits\n")) << text.err;
  EXPECT_EQ(Json::parse(run("plan " + kLarger + " --planner keep --memory 64KiB --advice 60 --json").out)["untried_planners"],
            Json::array());
}

// A planner that may have more may need more, or less: then the message says so.
TEST_F(Cli, AdviceExplainsFiguresThatDiffer) {
  for (const std::string planner : {"keep", "checkpoint", "superneurons", "autoswap"}) {
    const Result result = run("plan " + kLarger + " --memory 30% --host-memory 1GiB --json --planner " + planner);
    ASSERT_EQ(result.status, 1) << planner;
    const Json object = Json::parse(result.out);
    ASSERT_TRUE(object["smallest_budget_bytes"].is_number()) << planner;
    const bool differ = object["smallest_budget_bytes"] != object["peak_bytes"];
    EXPECT_EQ(result.err.find("would do with planner " + planner + ", which plans otherwise for that") != std::string::npos, differ)
        << result.err;
  }
}

}  // namespace
}  // namespace outsize
