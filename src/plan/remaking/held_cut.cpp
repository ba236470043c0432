#include "plan/remaking/held_cut.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/analysis/min_cut.h"

namespace outsize {

Table<bool> held_by_price(const RemakeProblem& problem, double price) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  constexpr std::int32_t kSource = 0, kSink = 1;
  const auto node_of_op = [](std::int32_t op) { return 2 + op; };
  const auto node_of_value = [&](std::int32_t value) { return static_cast<std::int32_t>(2 + problem.ops.size() + value); };
  MinCut cut(2 + problem.ops.size() + problem.values.size());
  for (std::int32_t k = 0; k < problem.ops.size(); ++k) {
    const RemakeProblem::Op& op = problem.ops[k];
    if (!op.again) continue;
    cut.add(kSource, node_of_op(k), op.seconds);
    for (const std::int32_t output : op.outputs) {
      const RemakeProblem::Value& value = problem.values[output];
      cut.add(node_of_op(k), node_of_value(output), price * static_cast<double>(value.bytes));
      if (std::ranges::any_of(value.readers, [&](std::int32_t reader) { return !problem.ops[reader].again; }))
        cut.add(node_of_value(output), kSink, kAll);
    }
    for (const std::int32_t input : op.inputs)
      if (problem.is_again(input)) cut.add(node_of_value(input), node_of_op(k), kAll);
  }
  cut.run(kSource, kSink);
  Table<bool> held(problem.values.size(), false);
  for (std::int32_t v = 0; v < problem.values.size(); ++v)
    held[v] = problem.is_again(v) && cut.with_source(node_of_op(problem.values[v].producer)) && !cut.with_source(node_of_value(v));
  return held;
}

std::vector<Table<bool>> held_by_prices(const RemakeProblem& problem, int count) {
  double seconds = 0, bytes = 0;
  for (const RemakeProblem::Op& op : problem.ops) {
    if (!op.again) continue;
    seconds += op.seconds;
    for (const std::int32_t output : op.outputs) bytes += static_cast<double>(problem.values[output].bytes);
  }
  std::vector<Table<bool>> choices;
  if (bytes == 0) return choices;
  // Prices around what a byte of forward costs on average: up to so many times less and more.
  constexpr double kReach = 200;
  for (int k = 0; k < count; ++k) {
    const double price = seconds / bytes * std::pow(kReach, 2.0 * (k + 0.5) / count - 1);
    Table<bool> held = held_by_price(problem, price);
    if (choices.empty() || choices.back() != held) choices.push_back(std::move(held));
  }
  return choices;
}

std::vector<std::int32_t> remake_once(const RemakeProblem& problem, const Table<bool>& held) {
  std::vector<std::int32_t> sequence;
  Table<bool> there(problem.values.size(), true);
  bool backward = false;
  std::vector<std::int32_t> lacking;
  Table<bool> listed(problem.ops.size(), false);
  for (std::int32_t k = 0; k < problem.ops.size(); ++k) {
    if (!problem.ops[k].again && !backward) {
      // What forward makes later is there when it is made.
      backward = true;
      for (std::int32_t v = 0; v < problem.values.size(); ++v)
        if (problem.is_again(v) && problem.values[v].producer < k) there[v] = held[v];
    }
    lacking.assign(1, k);
    for (std::size_t i = 0; i < lacking.size(); ++i)
      for (const std::int32_t input : problem.ops[lacking[i]].inputs) {
        const std::int32_t producer = problem.values[input].producer;
        if (there[input] || listed[producer]) continue;
        listed[producer] = true;
        lacking.push_back(producer);
      }
    std::ranges::sort(lacking);
    for (const std::int32_t op : lacking) {
      sequence.push_back(op);
      listed[op] = false;
      for (const std::int32_t output : problem.ops[op].outputs) there[output] = true;
    }
  }
  return sequence;
}

}  // namespace outsize
