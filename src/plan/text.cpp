#include "base/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/id_vector.h"
#include "plan/analysis/order.h"
#include "plan/plan.h"

namespace outsize {

namespace {

// The inner boundaries of `count` tiles of `extent`, as even as can be, the larger ones first.
std::vector<std::int64_t> even_cuts(std::int64_t extent, std::int64_t count) {
  std::vector<std::int64_t> cuts;
  for (std::int64_t i = 1; i < count; ++i) cuts.push_back(i * (extent / count) + std::min(i, extent % count));
  return cuts;
}

std::string print_pass(const Graph& graph, const Pass& pass) {
  const auto values = [&](const std::vector<ValueId>& ids) {
    std::vector<std::string> names;
    for (ValueId id : ids) names.push_back(graph.value(id).name);
    return fmt::format("[{}]", fmt::join(names, ", "));
  };
  const Dims& shape = graph.value(pass.driver).type.shape;
  std::vector<std::int64_t> grid;
  std::string uneven;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const std::size_t d = static_cast<std::size_t>(dim);
    const std::vector<std::int64_t> cuts = d < pass.cuts.size() ? pass.cuts[d] : std::vector<std::int64_t>{};
    const std::int64_t tiles = static_cast<std::int64_t>(cuts.size()) + 1;
    const bool even = cuts == even_cuts(shape[dim], tiles);
    grid.push_back(even ? tiles : 1);
    if (!even) uneven += fmt::format(" cuts.{}=[{}]", dim, fmt::join(cuts, ", "));
  }
  std::string text =
      fmt::format("pass {} driver={} grid=[{}]{}", pass.name, graph.value(pass.driver).name, fmt::join(grid, ", "), uneven);
  text += pass.descending ? " order=down" : " order=up";
  if (pass.gather_gradients) text += " gradients=gather";
  if (!pass.share.empty()) text += " share=" + values(pass.share);
  if (!pass.inner.empty()) text += " inner=" + values(pass.inner);
  if (!pass.saved_by.empty()) text += fmt::format(" saved_by={} saved_in={}", pass.saved_by, name_of(pass.saved_in));
  if (pass.ahead) text += " copies=ahead";
  std::vector<std::string> ops;
  for (OpId op : pass.ops) ops.push_back(graph.op(op).name);
  return text + fmt::format(" ops=[{}]", fmt::join(ops, ", "));
}

// Of a pass: a slide of 2^20 pixels a side in tiles of 2^10. Lowering takes memory for every tile of a line.
constexpr std::int64_t kMostTiles = std::int64_t{1} << 20;

class PlanParser {
 public:
  PlanParser(const Graph& graph, Plan& plan)
      : graph_(graph), plan_(plan), order_(eager_order(graph)), ran_(graph.op_count(), false) {}

  void line(std::string_view text) {
    LineCursor cursor(text);
    if (cursor.at_end()) return;
    const std::string_view word = cursor.name("a step: plan, stream, kernel, run, until, rest, out, drop, in or pass");
    if (word == "plan") {
      plan_.name = cursor.name("the graph's name");
      if (plan_.name != graph_.name) user_error("this plan is for graph {}, not for {}", plan_.name, graph_.name);
      if (!cursor.at_end()) {
        const std::string_view by = cursor.name("'by'");
        if (by != "by") user_error("expected 'by' and the planner's name, found '{}'", by);
        plan_.planner = cursor.name("the planner's name");
      }
    } else if (word == "stream") {
      const ValueId id = value(cursor);
      plan_.home[id] = home(cursor);
    } else if (word == "kernel") {
      kernel(cursor);
    } else if (word == "run") {
      const OpId id = op(cursor);
      run(id, cursor.at_end() ? Tier::device : tier(cursor));
    } else if (word == "until") {
      run_until(op(cursor));
    } else if (word == "rest") {
      run_until({});
    } else if (word == "out") {
      const ValueId id = value(cursor);
      plan_.steps.push_back(OutStep{id, tier(cursor)});
    } else if (word == "drop") {
      plan_.steps.push_back(DropStep{value(cursor)});
    } else if (word == "in") {
      plan_.steps.push_back(InStep{value(cursor)});
    } else if (word == "pass") {
      pass(cursor);
    } else {
      user_error("expected a step (plan, stream, kernel, run, until, rest, out, drop, in or pass), found '{}'", word);
    }
    cursor.finish();
  }

 private:
  void kernel(LineCursor& cursor) {
    const OpId id = op(cursor);
    KernelChoice choice;
    choice.name = kernel_name(cursor);
    if (!cursor.at_end()) {
      const std::string_view word = cursor.name("'rounding'");
      if (word != "rounding") user_error("expected 'rounding' or nothing after the kernel's name, found '{}'", word);
      choice.rounding = true;
    }
    if (!plan_.kernels.emplace(id, std::move(choice)).second) user_error("op {} has a kernel already", graph_.op(id).name);
  }
  // "cudnn:engine67/2-1+bias": names joined by colons and pluses.
  static std::string kernel_name(LineCursor& cursor) {
    std::string name(cursor.name("a kernel's name"));
    while (cursor.peek(':') || cursor.peek('+')) {
      name += cursor.accept(':') ? ':' : '+';
      if (name.back() == '+') cursor.accept('+');
      name += cursor.name("the rest of the kernel's name");
    }
    return name;
  }

  void run(OpId id, Tier where = Tier::device) {
    ran_[id] = true;
    plan_.steps.push_back(RunStep{id, where});
  }
  // Everything before `end` in the default order that has not run; everything left without an end.
  void run_until(OpId end) {
    for (OpId id : order_) {
      if (id == end) return;
      if (!ran_[id]) run(id);
    }
  }

  ValueId value(LineCursor& cursor) { return value(cursor.name("a value")); }
  ValueId value(std::string_view name) {
    const ValueId id = graph_.find_value(name);
    if (id) return id;
    std::vector<std::string_view> names;
    for (const Value& v : graph_.values()) names.push_back(v.name);
    user_error("graph {} has no value '{}'{}", graph_.name, name, did_you_mean(name, names));
  }
  OpId op(LineCursor& cursor) { return op(cursor.name("an op")); }
  OpId op(std::string_view name) {
    const OpId id = graph_.find_op(name);
    if (id) return id;
    std::vector<std::string_view> names;
    for (const Op& o : graph_.ops()) names.push_back(o.name);
    user_error("graph {} has no op '{}'{}", graph_.name, name, did_you_mean(name, names));
  }
  Tier tier(LineCursor& cursor) { return one_of({Tier::host, Tier::disk, Tier::device}, "host or disk", cursor); }
  Tier home(LineCursor& cursor) {
    return one_of({Tier::host, Tier::disk, Tier::source, Tier::device}, "host, disk or source", cursor);
  }
  Tier one_of(std::initializer_list<Tier> tiers, std::string_view expected, LineCursor& cursor) {
    const std::string_view name = cursor.name(fmt::format("a tier: {}", expected));
    for (const Tier tier : tiers)
      if (name == name_of(tier)) return tier;
    user_error("expected a tier ({}), found '{}'", expected, name);
  }
  template <class Item>
  void list(LineCursor& cursor, Item&& item) {
    cursor.expect('[', "before the list");
    while (!cursor.accept(']')) {
      item(cursor);
      if (!cursor.peek(']')) cursor.expect(',', "between entries");
    }
  }

  void pass(LineCursor& cursor) {
    Pass pass;
    pass.name = cursor.name("the pass's name, such as region.pass");
    std::vector<std::int64_t> grid;
    std::vector<std::pair<int, std::vector<std::int64_t>>> cuts;
    while (!cursor.at_end()) {
      const std::string_view key =
          cursor.name("driver, grid, cuts.DIM, order, gradients, share, inner, saved_by, saved_in, copies or ops");
      cursor.expect('=', "after the key");
      if (key == "driver") {
        pass.driver = value(cursor);
      } else if (key == "grid") {
        grid = cursor.integers("tiles a dimension");
      } else if (key.starts_with("cuts.")) {
        std::int64_t dim = 0;
        if (!parse_integer(key.substr(5), dim) || dim < 0 || dim >= Dims::kMaxRank)
          user_error("'{}': expected cuts.DIMENSION", key);
        cuts.push_back({static_cast<int>(dim), cursor.integers("the inner tile boundaries")});
      } else if (key == "order") {
        pass.descending = choice(cursor, key, "up", "down");
      } else if (key == "gradients") {
        pass.gather_gradients = choice(cursor, key, "push", "gather");
      } else if (key == "share") {
        list(cursor, [&](LineCursor& c) { pass.share.push_back(value(c)); });
      } else if (key == "inner") {
        list(cursor, [&](LineCursor& c) { pass.inner.push_back(value(c)); });
      } else if (key == "saved_by") {
        pass.saved_by = cursor.name("a pass");
      } else if (key == "saved_in") {
        pass.saved_in = tier(cursor);
      } else if (key == "copies") {
        pass.ahead = choice(cursor, key, "now", "ahead");
      } else if (key == "ops") {
        list(cursor, [&](LineCursor& c) {
          pass.ops.push_back(op(c));
          ran_[pass.ops.back()] = true;
        });
      } else {
        user_error(
            "pass {}: unknown key '{}'; expected driver, grid, cuts.DIM, order, gradients, share, inner, saved_by, saved_in, "
            "copies or ops",
            pass.name, key);
      }
    }
    if (!pass.driver || pass.ops.empty()) user_error("pass {}: expected driver=VALUE and ops=[…]", pass.name);
    const Dims& shape = graph_.value(pass.driver).type.shape;
    pass.cuts.resize(static_cast<std::size_t>(shape.rank()));
    if (!grid.empty() && static_cast<int>(grid.size()) != shape.rank())
      user_error("pass {}: grid has {} entries, but {} has {} dimensions", pass.name, grid.size(), graph_.value(pass.driver).name,
                 shape.rank());
    std::int64_t tiles = 1;
    for (std::size_t dim = 0; dim < grid.size(); ++dim) {
      const std::int64_t extent = shape[static_cast<int>(dim)];
      if (grid[dim] < 1 || grid[dim] > extent)
        user_error("pass {}: dimension {} of {} has {} elements and cannot be cut into {} tiles", pass.name, dim,
                   graph_.value(pass.driver).name, extent, grid[dim]);
      if (grid[dim] > kMostTiles / tiles)
        user_error("pass {}: its grid [{}] has more than {} tiles", pass.name, fmt::join(grid, ", "), kMostTiles);
      tiles *= grid[dim];
      pass.cuts[dim] = even_cuts(extent, grid[dim]);
    }
    for (auto& [dim, boundaries] : cuts) {
      if (dim >= shape.rank()) user_error("pass {}: {} has no dimension {}", pass.name, graph_.value(pass.driver).name, dim);
      const bool ascend = std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) == boundaries.end();
      if (!ascend || (!boundaries.empty() && (boundaries.front() < 1 || boundaries.back() >= shape[dim])))
        user_error("pass {}: cuts.{} must ascend, each inside the {} elements of dimension {} of {}; found [{}]", pass.name, dim,
                   shape[dim], dim, graph_.value(pass.driver).name, fmt::join(boundaries, ", "));
      pass.cuts[static_cast<std::size_t>(dim)] = std::move(boundaries);
    }
    plan_.steps.push_back(PassStep{static_cast<int>(plan_.passes.size())});
    plan_.passes.push_back(std::move(pass));
  }

  // False for the first word, true for the second.
  bool choice(LineCursor& cursor, std::string_view key, std::string_view no, std::string_view yes) {
    const std::string_view word = cursor.name(key);
    if (word != no && word != yes) user_error("{}: expected {} or {}, found '{}'", key, no, yes, word);
    return word == yes;
  }

  const Graph& graph_;
  Plan& plan_;
  std::vector<OpId> order_;
  IdVector<OpId, bool> ran_;
};

}  // namespace

std::string print_plan(const Graph& graph, const Plan& plan) {
  std::string text = fmt::format("plan {} by {}\n", plan.name, plan.planner);
  for (const auto& [value, tier] : plan.home) text += fmt::format("stream {} {}\n", graph.value(value).name, name_of(tier));
  for (const auto& [op, choice] : plan.kernels)
    text += fmt::format("kernel {} {}{}\n", graph.op(op).name, choice.name, choice.rounding ? " rounding" : "");
  for (const Step& step : plan.steps) {
    if (const auto* run = std::get_if<RunStep>(&step))
      text += fmt::format("run {}{}\n", graph.op(run->op).name, run->where == Tier::host ? " host" : "");
    if (const auto* out = std::get_if<OutStep>(&step))
      text += fmt::format("out {} {}\n", graph.value(out->value).name, name_of(out->tier));
    if (const auto* in = std::get_if<InStep>(&step)) text += fmt::format("in {}\n", graph.value(in->value).name);
    if (const auto* drop = std::get_if<DropStep>(&step)) text += fmt::format("drop {}\n", graph.value(drop->value).name);
    if (const auto* pass = std::get_if<PassStep>(&step))
      text += print_pass(graph, plan.passes[static_cast<std::size_t>(pass->pass)]) + "\n";
  }
  return text;
}

Plan parse_plan(const Graph& graph, std::string_view text, std::string_view file) {
  Plan plan;
  plan.name = graph.name;
  plan.planner = "hand";
  plan.file = file;
  PlanParser parser(graph, plan);
  std::int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    try {
      parser.line(line);
      plan.lines.resize(plan.steps.size(), number);
    } catch (const UserError& error) {
      throw PlacedError(fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
  return plan;
}

}  // namespace outsize
