#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "graph/opdef.h"
#include "graph/step_graph.h"
#include "plan/analysis/groups.h"
#include "plan/analysis/order.h"
#include "plan/reckon/lives.h"
#include "plan/tiling/tiled.h"

namespace outsize {

// The bytes that each planner must make do with by its own definition: the ops in their order on whole values, less what the
// planner says waits elsewhere, or is made again, while an op runs that does not touch it. Where a definition leaves a choice, it
// is the one that takes the fewest bytes; what is said is never less than what the planner may need, but for what packing loses.
class Definitions {
 public:
  Definitions(const StepGraph& step, const PlanRequest& request)
      : step_(step),
        graph_(step.graph),
        request_(request),
        runs_(eager_order(graph_)),
        lives_(lives_of(request, costs_of(request), runs_)),
        groups_(groups_of(graph_)) {
    // One more than the last group is every value's and op's that is in none.
    group_of_.assign(at(graph_.op_count()), groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (const std::vector<OpId>* ops : {&groups_[g].forward, &groups_[g].backward})
        for (const OpId op : *ops) group_of_[at(op.index)] = g;
  }

  std::int64_t bytes_of(std::string_view planner) const {
    const auto any = [](const Life&) { return true; };
    if (planner == "keep") return whole();
    // What is cheap to make is made again for backward.
    if (planner == "recompute-cheap") return in_gaps([&](const Life& life) { return is_cheap_of_what_stays(life); });
    if (planner == "checkpoint") return checkpoints();
    // Any values are made again: those that are cheap, or all between checkpoints.
    if (planner == "remake")
      return std::min(in_gaps([&](const Life& life) { return is_cheap_of_what_stays(life); }), checkpoints());
    // Everything that backward reads leaves: at their extreme these are all the same. TSPLIT may split besides.
    for (const char* name : {"vdnn", "vdnn-all", "greedy", "dynprog", "offload-ratio", "autoswap", "tsplit"})
      if (planner == name) return in_gaps(any);
    if (planner == "tflms") return tflms();
    if (planner == "superneurons") return superneurons();
    if (planner == "vdnn-conv") return in_gaps([&](const Life& life) { return is_read_by_convolution(life); });
    if (planner == "zero-offload") return on_host(false);
    if (planner == "fairscale") return on_host(true);
    if (planner == "stream" || planner == "blend") return one_op();
    if (planner == "sft") return segments();
    // With checkpoints, a pass is a layer; without, the backward of all layers is one, which makes forward again.
    for (const char* name : {"overl-h", "2ps-h"})
      if (planner == name) return tiles();
    for (const char* name : {"overl", "2ps"})
      if (planner == name) return tiles() + of_all_layers();
    return std::numeric_limits<std::int64_t>::max();  // a planner that is not known here
  }

 private:
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  const Op& op_of_run(std::size_t run) const { return graph_.op(runs_[run]); }
  bool is_used(const Life& life, std::size_t run) const {
    return life.made == static_cast<std::int32_t>(run) || std::ranges::binary_search(life.uses, static_cast<std::int32_t>(run));
  }

  // The most during a run that counts, where `away` says which values are not there during a run that does not use them.
  std::int64_t most(const std::function<bool(const Life&, std::size_t)>& away,
                    const std::function<bool(std::size_t)>& counts) const {
    std::vector<std::int64_t> bytes = lives_.bytes();
    for (const Life& life : lives_.all)
      for (std::size_t run = at(std::max(0, life.begin)); run < runs_.size() && run <= at(life.end); ++run)
        if (!is_used(life, run) && away(life, run)) bytes[run] -= life.bytes;
    std::int64_t most = 0;
    for (std::size_t run = 0; run < bytes.size(); ++run)
      if (counts(run)) most = std::max(most, bytes[run]);
    return most;
  }
  static bool every_run(std::size_t) { return true; }

  std::int64_t whole() const {
    return most([](const Life&, std::size_t) { return false; }, every_run);
  }

  // The run of forward that reads it last, or makes it.
  std::size_t last_forward(const Life& life) const {
    std::int32_t last = life.made;
    for (const std::int32_t use : life.uses)
      if (op_of_run(at(use)).phase == Phase::forward) last = use;
    return at(last);
  }
  // Of a value that forward makes and backward reads: whether the run is between.
  bool in_gap(const Life& life, std::size_t run) const {
    if (life.made < 0 || op_of_run(at(life.made)).phase != Phase::forward || run <= last_forward(life)) return false;
    const auto first = std::ranges::find_if(life.uses, [&](std::int32_t use) { return at(use) > last_forward(life); });
    return first != life.uses.end() && run < at(*first);
  }
  std::int64_t in_gaps(const std::function<bool(const Life&)>& leaves) const {
    return most([&](const Life& life, std::size_t run) { return in_gap(life, run) && leaves(life); }, every_run);
  }

  // What leaves does so over the link, one value after the other, and no op waits for that; it begins to come back with the first
  // op of backward of a forward op that is at most a level behind its maker. Where branches run one after the other, that may be
  // long before it is read.
  std::int64_t tflms() const {
    std::vector<std::int64_t> level(at(graph_.op_count()), 0);
    for (const OpId id : runs_)
      for (const ValueId input : graph_.op(id).inputs)
        if (const OpId producer = graph_.value(input).producer)
          level[at(id.index)] = std::max(level[at(id.index)], level[at(producer.index)] + 1);
    std::vector<std::int64_t> lowest;  // that backward has come to, by run
    std::vector<double> starts{0};     // of each run
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      lowest.push_back(run > 0 ? lowest.back() : std::numeric_limits<std::int64_t>::max());
      if (const OpId of = op_of_run(run).forward; of && op_of_run(run).phase == Phase::backward)
        lowest.back() = std::min(lowest.back(), level[at(of.index)]);
      starts.push_back(starts.back() + lives_.seconds[run]);
    }
    const Device& device = request_.profile.device;
    std::map<ValueId, double> left;
    double link = 0;
    for (const Life& life : lives_.all) {  // in the order they are made
      if (life.made < 0 || !in_gap(life, last_forward(life) + 1)) continue;
      link = std::max(link, starts[at(life.made) + 1]) + device.launch_seconds + static_cast<double>(life.bytes) / device.link_out;
      left[life.value] = link;
    }
    return most(
        [&](const Life& life, std::size_t run) {
          return in_gap(life, run) && starts[run] >= left.at(life.value) && lowest[run] > level[at(runs_[at(life.made)].index)] + 1;
        },
        every_run);
  }

  // Convolutions' outputs leave, what is cheap is made again, unless branches join there. What it is made from comes back for that,
  // and stays until its own backward.
  std::int64_t superneurons() const {
    IdVector<ValueId, std::size_t> first(graph_.value_count(), runs_.size());  // the run that a value must be there for again
    for (std::int64_t v = graph_.value_count(); v-- > 0;) {                    // what is made of a value comes after it
      const ValueId value(v);
      for (const OpId reader : graph_.value(value).consumers) {
        const Op& op = graph_.op(reader);
        if (op.phase == Phase::backward) first[value] = std::min(first[value], run_of(reader));
        if (op.phase == Phase::forward && op.def->cheap({graph_, op}) && !joins(op))
          for (const ValueId output : op.outputs) first[value] = std::min(first[value], first[output]);
      }
    }
    return most(
        [&](const Life& life, std::size_t run) {
          return in_gap(life, run) && !joins(graph_.op(graph_.value(life.value).producer)) && run < first[life.value];
        },
        every_run);
  }
  std::size_t run_of(OpId op) const { return at(std::ranges::find(runs_, op) - runs_.begin()); }

  bool is_cheap(ValueId value) const {
    const OpId producer = graph_.value(value).producer;
    return producer && graph_.op(producer).phase == Phase::forward && graph_.op(producer).def->cheap({graph_, graph_.op(producer)});
  }
  // Whether the op that makes it is cheap and reads nothing that may be made again itself.
  bool is_cheap_of_what_stays(const Life& life) const {
    if (!is_cheap(life.value)) return false;
    const Op& op = graph_.op(graph_.value(life.value).producer);
    return op.outputs.size() == 1 &&
           std::ranges::none_of(op.inputs, [&](ValueId input) { return is_cheap(input) || !is_read_by_backward(input); });
  }
  bool is_read_by_backward(ValueId value) const {
    if (graph_.value(value).persistent() || graph_.value(value).role == Role::input) return true;
    return std::ranges::any_of(graph_.value(value).consumers, [&](OpId op) { return graph_.op(op).phase == Phase::backward; });
  }
  // Whether it is made where branches join.
  bool joins(const Op& op) const {
    return std::ranges::count_if(op.inputs, [&](ValueId input) {
             return graph_.value(input).producer && graph_.value(input).role == Role::activation;
           }) > 1;
  }
  bool is_read_by_convolution(const Life& life) const {
    return std::ranges::any_of(graph_.value(life.value).consumers, [&](OpId id) {
      const Op& op = graph_.op(id);
      return op.phase == Phase::forward && op.def->kind().starts_with("conv") && op.inputs[0] == life.value;
    });
  }

  // √n segments: what a segment makes is there while its forward runs and from the first op of its backward on, but for what it
  // hands on, which stays.
  std::int64_t checkpoints() const {
    std::size_t length = 1;
    while (length * length < groups_.size()) ++length;
    const auto segment_of = [&](OpId op) { return group_of_[at(op.index)] / length; };
    std::vector<std::size_t> first_backward(groups_.size() / length + 2, runs_.size()), last_forward(first_backward.size(), 0);
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const Phase phase = op_of_run(run).phase;
      const std::size_t segment = segment_of(runs_[run]);
      if (phase == Phase::forward) last_forward[segment] = run;
      if (phase == Phase::backward) first_backward[segment] = std::min(first_backward[segment], run);
    }
    return most(
        [&](const Life& life, std::size_t run) {
          if (life.made < 0 || !in_gap(life, run) || group_of_[at(runs_[at(life.made)].index)] == groups_.size()) return false;
          const std::size_t group = group_of_[at(runs_[at(life.made)].index)], segment = group / length;
          const bool handed_on = groups_[group].output == life.value && (group + 1) % length == 0;
          return !handed_on && run > last_forward[segment] && run < first_backward[segment];
        },
        every_run);
  }

  // The host updates, and holds what that takes. FairScale brings weights for the ops that read them, and between layers
  // activations leave; a visit lasts while the next use is at most four runs away.
  std::int64_t on_host(bool weights_too) const {
    constexpr std::int32_t kVisit = 4;
    std::int64_t states = 0;
    std::vector<std::int64_t> weights(runs_.size(), 0);  // away during each run
    for (std::int64_t v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(ValueId(v));
      if (!value.persistent() || value.producer) continue;
      std::vector<std::int32_t> uses;
      bool updated = false;
      for (std::size_t run = 0; run < runs_.size(); ++run) {
        if (std::ranges::find(op_of_run(run).inputs, ValueId(v)) == op_of_run(run).inputs.end()) continue;
        updated = updated || op_of_run(run).phase == Phase::update;
        if (op_of_run(run).phase != Phase::update) uses.push_back(static_cast<std::int32_t>(run));
      }
      const std::int64_t bytes = packed_bytes(request_, ValueId(v));
      if (uses.empty()) states += updated ? bytes : 0;
      if (uses.empty() || !weights_too) continue;
      for (std::int32_t run = 0; run < static_cast<std::int32_t>(runs_.size()); ++run) {
        const auto next = std::ranges::lower_bound(uses, run);
        const bool visited =
            (next != uses.end() && *next == run) || (next != uses.end() && next != uses.begin() && *next - *(next - 1) <= kVisit);
        if (!visited) weights[at(run)] += bytes;
      }
    }
    std::vector<std::int64_t> bytes = lives_.bytes();
    for (const Life& life : lives_.all) {
      const bool between = std::ranges::any_of(groups_, [&](const Group& group) { return group.output == life.value; });
      for (std::size_t run = at(std::max(0, life.begin)); run < runs_.size() && run <= at(life.end); ++run)
        if (weights_too && between && in_gap(life, run)) bytes[run] -= life.bytes;
    }
    std::int64_t most = 0;
    for (std::size_t run = 0; run < runs_.size(); ++run)
      if (op_of_run(run).phase != Phase::update) most = std::max(most, bytes[run] - states - weights[run]);
    return most;
  }

  // Everything that an op does not touch is away, weights too, but for the smallest; the host updates. What is read in from the
  // data stays until its last reader, and what the step is to give stays from when it is made.
  std::int64_t one_op() const {
    std::vector<std::int64_t> bytes(lives_.workspace.begin(), lives_.workspace.end());
    for (const Life& life : lives_.all)
      for (std::size_t run = at(std::max(0, life.begin)); run < runs_.size() && run <= at(life.end); ++run) {
        const bool is_last = life.uses.empty() || at(life.uses.back()) < run;
        if (is_used(life, run) || life.made < 0 || is_last) bytes[run] += life.bytes;
      }
    std::int64_t most = 0;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      if (op_of_run(run).phase == Phase::update) continue;
      for (const ValueId input : op_of_run(run).inputs)
        if (graph_.value(input).persistent()) bytes[run] += packed_bytes(request_, input);
      most = std::max(most, bytes[run]);
    }
    return most * 102 / 100;  // the smallest together take a hundredth of the budget
  }

  bool is_tiled(OpId op) const { return can_tile(graph_, op, cut_of(graph_)); }

  // An op that can be tiled takes an eighth of what it touches at most: there are as many samples and rows, or tokens. What only
  // such ops touch waits on the host. Weights are split at last, where they can be; that is not counted on.
  std::int64_t tiles() const {
    constexpr std::int64_t kTiles = 8;
    const auto is_touched_whole = [&](const Value& value) {
      return (value.producer && !is_tiled(value.producer)) ||
             std::ranges::any_of(value.consumers, [&](OpId op) { return !is_tiled(op) && graph_.op(op).phase != Phase::update; });
    };
    std::vector<std::int64_t> bytes;
    for (std::size_t run = 0; run < runs_.size(); ++run)
      bytes.push_back(lives_.persistent + lives_.workspace[run] / (is_tiled(runs_[run]) ? kTiles : 1));
    for (const Life& life : lives_.all) {
      const bool stays = is_touched_whole(graph_.value(life.value));
      for (std::size_t run = at(std::max(0, life.begin)); run < runs_.size() && run <= at(life.end); ++run)
        if (stays)
          bytes[run] += life.bytes;
        else if (is_used(life, run))
          bytes[run] += life.bytes / (is_tiled(runs_[run]) ? kTiles : 1);
    }
    std::int64_t gradients = 0;  // of the layer that has most: its tiles add them up, all at once
    for (const Group& group : groups_) {
      std::set<ValueId> weights;
      for (const OpId op : group.forward)
        for (const ValueId input : graph_.op(op).inputs)
          if (graph_.value(input).role == Role::parameter) weights.insert(input);
      std::int64_t sum = 0;
      for (const ValueId weight : weights) sum += packed_bytes(request_, weight);
      gradients = std::max(gradients, sum);
    }
    return std::ranges::max(bytes) + gradients;
  }

  // The gradients of weights, and of one sample, or of four rows of one, what forward makes for backward, and its gradient.
  std::int64_t of_all_layers() const {
    std::int64_t weights = 0, saved = 0;
    for (std::int64_t v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(ValueId(v));
      const bool is_made = value.producer && graph_.op(value.producer).phase == Phase::forward;
      if (value.role == Role::parameter && !value.producer) weights += packed_bytes(request_, ValueId(v));
      if (is_made && is_read_by_backward(ValueId(v))) saved += packed_bytes(request_, ValueId(v));
    }
    const std::int64_t tiles = graph_.value(step_.x).type.shape[0] * (cut_of(graph_) == Cut::space ? 4 : 1);
    return weights + 2 * saved / tiles;
  }

  // Listing 3: of a capacity, a segment begins with an op of forward that makes more, and ends with the first after it that does
  // not and that all paths from the segment go through. What is made inside is there in tiles alone, and its gradient too: of one
  // sample, halved along height.
  std::int64_t segments() const {
    if (cut_of(graph_) != Cut::space) return whole();  // segments are of maps
    std::vector<OpId> forward;
    std::vector<std::int64_t> made, rank(at(graph_.op_count()), -1);
    for (const OpId id : runs_) {
      if (graph_.op(id).phase != Phase::forward) continue;
      rank[at(id.index)] = std::ssize(forward);
      forward.push_back(id);
      made.push_back(0);
      for (const ValueId output : graph_.op(id).outputs) made.back() += packed_bytes(request_, output);
    }
    std::vector<std::int64_t> last_reader(forward.size(), -1);
    for (std::size_t op = 0; op < forward.size(); ++op)
      for (const ValueId value : graph_.op(forward[op]).outputs)
        for (const OpId reader : graph_.value(value).consumers) last_reader[op] = std::max(last_reader[op], rank[at(reader.index)]);
    std::int64_t least = whole();
    std::set<std::vector<bool>> seen;
    for (const std::int64_t capacity : std::set<std::int64_t>(made.begin(), made.end())) {
      std::vector<bool> inside(at(graph_.op_count()), false), ends(inside);
      bool can_be = true;
      for (std::size_t first = 0; first < forward.size() && can_be; ++first) {
        if (made[first] <= capacity) continue;
        std::size_t end = first + 1;
        std::int64_t read = last_reader[first];  // by the last op that reads what the segment makes
        while (end < forward.size() && (made[end] > capacity || read > static_cast<std::int64_t>(end)))
          read = std::max(read, last_reader[end++]);
        can_be = end < forward.size();
        for (std::size_t op = first; op <= end && can_be; ++op) {
          inside[at(forward[op].index)] = true;
          // The mean and variance that statistics come to are no maps; they are the same for all tiles.
          can_be =
              can_tile(graph_, forward[op], Cut::space) || graph_.value(graph_.op(forward[op]).outputs[0]).role == Role::statistic;
        }
        if (can_be) ends[at(forward[end].index)] = true;
        first = end;
      }
      if (can_be && seen.insert(ends).second) least = std::min(least, with_segments(inside, ends));
    }
    return least;
  }

  // By op of forward, whether it is in a segment, and whether it ends one.
  std::int64_t with_segments(const std::vector<bool>& inside, const std::vector<bool>& ends) const {
    const auto is_inside = [&](OpId id) { return inside[at((graph_.op(id).forward ? graph_.op(id).forward : id).index)]; };
    const std::int64_t tiles = 2 * graph_.value(step_.x).type.shape[0];
    std::vector<std::int64_t> bytes;
    for (std::size_t run = 0; run < runs_.size(); ++run)
      bytes.push_back(lives_.persistent + lives_.workspace[run] / (is_inside(runs_[run]) ? tiles : 1));
    for (const Life& life : lives_.all) {
      const Value& value = graph_.value(life.value);
      const bool is_interior = value.producer && is_inside(value.producer) && !ends[at(value.producer.index)] &&
                               value.role != Role::statistic && !is_weight_gradient(value) &&
                               std::ranges::all_of(value.consumers, is_inside);
      for (std::size_t run = at(std::max(0, life.begin)); run < runs_.size() && run <= at(life.end); ++run)
        if (!is_interior)
          bytes[run] += life.bytes;
        else if (is_used(life, run))
          bytes[run] += life.bytes / tiles;
    }
    return std::ranges::max(bytes);
  }
  bool is_weight_gradient(const Value& value) const {
    return value.gradient_of && graph_.value(value.gradient_of).role == Role::parameter;
  }

  const StepGraph& step_;
  const Graph& graph_;
  const PlanRequest& request_;
  const std::vector<OpId> runs_;
  const Lives lives_;
  const std::vector<Group> groups_;
  std::vector<std::size_t> group_of_;  // by op
};

}  // namespace outsize
