#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "base/bytes.h"
#include "graph/opdef.h"
#include "graph/storage.h"
#include "plan/planners/planners.h"
#include "plan/planners/sft_graph.h"
#include "plan/reckon/lives.h"
#include "plan/tiling/tiled.h"

namespace outsize {

namespace {

constexpr PlannerOption kSftTiles{"tiles", PlannerOption::Kind::integer, "",
                                  "tiles along each dimension of space, in every segment; else as few as fit", 1};
constexpr PlannerOption kSftGrid{.name = "grid",
                                 .kind = PlannerOption::Kind::word,
                                 .initial = "finer",
                                 .help = "numbers of tiles: powers of two, the same along height and width, or any",
                                 .words = "powers|finer"};
constexpr PlannerOption kSftCapacity{"capacity", PlannerOption::Kind::number, "",
                                     "ops that make more MiB than this are tiled; else the fastest of all sizes that fit", 0.001};

}  // namespace

namespace {

// A segment of the graph: its ops, and what Listing 4 needs of them.
struct Segment {
  Table<OpId> ops;
  TileGraph nodes;
  std::vector<int> space;  // dimensions of space that it can be cut along
  bool samples = false;    // and whether along samples
};

class SftPlanner {
 public:
  explicit SftPlanner(const PlanRequest& request)
      : request_(request),
        graph_(request.graph),
        forward_(forward_ops(graph_)),
        memory_(request),
        tiles_(request.options.has(kSftTiles) ? request.options.integer(kSftTiles) : 0),
        segment_of_(graph_.op_count(), -1),
        patience_(hardly_wanted_seconds(request)) {
    for (const OpId id : forward_.ops) {
      std::int64_t bytes = 0;
      for (const ValueId output : graph_.op(id).outputs) bytes += bytes_of(output);
      made_.push_back(bytes);
    }
  }

  Planned<Plan> make() {
    const std::optional<Remake> given = remake_of(request_.options);
    const std::vector<std::int64_t> all = capacities();
    for (const std::int64_t capacity : all) consider_all(capacity, given.value_or(Remake::none));
    if (given) consider_put_off();
    // To make values again helps where they lack room, or where copies take longer than ops: with the segments that were best, and
    // some of the others.
    constexpr std::int64_t kFew = 12;
    std::set<std::int64_t, std::greater<>> few{fastest_ ? fastest_setting_.capacity : all.back(), all.back()};
    for (std::int64_t i = 0; i < kFew; ++i) few.insert(all[i * all.size() / kFew]);
    for (const std::int64_t capacity : few)
      for (const Remake remake : {Remake::cheaper, Remake::once, Remake::backward, Remake::all})
        if (!given && (!fastest_ || remaking_may_gain(request_, fastest_->seconds))) consider_all(capacity, remake);
    consider_put_off();
    if (!fastest_ && lacking_.empty()) {  // nothing could be cut: whole values say what is missing
      divide(std::numeric_limits<std::int64_t>::max());
      consider({}, tiling_of_segments(Remake::none), std::numeric_limits<double>::infinity());
    }
    if (!fastest_) return lacking_.refusal(request_, "sft", forward_.ops.back());
    if (tiles_ == 0 && request_.options.word(kSftGrid) == "finer") {
      divide(fastest_setting_.capacity);
      consider(choice_of(tiling_of_segments(fastest_setting_.remake), fastest_setting_.stream, true),
               std::numeric_limits<double>::infinity());
    }
    return std::move(fastest_->plan);
  }

 private:
  // The segments of a capacity, with each choice of what is streamed.
  void consider_all(std::int64_t capacity, Remake remake) {
    if (!divide(capacity)) return;
    const Tiling tiling = tiling_of_segments(remake);
    // Where nothing waits that could be made again, there is nothing new.
    if (remake != Remake::none && !remake_of(request_.options) && tiling.stored == tiling_of_segments(Remake::none).stored) return;
    for (const TiledChoice::Stream stream : {TiledChoice::Stream::none, TiledChoice::Stream::inputs, TiledChoice::Stream::all})
      consider({capacity, stream, remake}, tiling, patience_);
  }

  struct Setting {
    std::int64_t capacity = 0;
    TiledChoice::Stream stream = TiledChoice::Stream::none;
    Remake remake = Remake::none;
  };

  // What was put off because of the seconds that it takes, the fastest first: it bounds the others.
  void consider_put_off() {
    const IdVector<OpId, double> costs = costs_of(request_).seconds;
    const auto most = [&] { return fastest_ ? fastest_->seconds : std::numeric_limits<double>::infinity(); };
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t k = 0; k < put_off_.size(); ++k) {
      divide(put_off_[k].capacity);
      order.emplace_back(seconds_of_tiling(graph_, tiling_of_segments(put_off_[k].remake), costs, most()), k);
    }
    std::ranges::sort(order);
    for (const auto& [seconds, k] : order) {
      if (seconds > most()) continue;
      divide(put_off_[k].capacity);
      consider(put_off_[k], tiling_of_segments(put_off_[k].remake), std::numeric_limits<double>::infinity());
    }
    put_off_.clear();
  }

  // Keeps the plan of a setting, with the segments of its capacity, where it is the fastest so far; puts it off where it takes
  // longer than `patience` seconds.
  void consider(const Setting& setting, const Tiling& tiling, double patience) {
    const Outcome outcome = consider(choice_of(tiling, setting.stream, false), patience);
    if (outcome == Outcome::fastest) fastest_setting_ = setting;
    if (outcome == Outcome::put_off) put_off_.push_back(setting);
  }

  std::int64_t bytes_of(ValueId value) const {
    return stored_bytes(request_.storage, graph_.value(value).type, graph_.value(value).type.shape);
  }

  // What counts as fitting: the memory itself, as the paper has it, and every size below it down to nothing, since what fits alone
  // may not fit with all else.
  std::vector<std::int64_t> capacities() const {
    if (request_.options.has(kSftCapacity)) return {static_cast<std::int64_t>(request_.options.number(kSftCapacity) * 1024 * 1024)};
    const std::int64_t memory = request_.budgets.device;
    std::vector<std::int64_t> all{memory};
    if (!request_.limited()) return all;
    all.push_back(0);
    for (const std::int64_t bytes : made_)
      if (bytes < memory) all.push_back(bytes);
    std::sort(all.begin(), all.end(), std::greater<>());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  // Listing 3: the segments of a capacity. Returns whether they have ends and can be cut.
  bool divide(std::int64_t capacity) {
    Table<bool> must_tile;
    for (const std::int64_t bytes : made_) must_tile.push_back(bytes > capacity);
    const std::optional<std::vector<TileSegment>> found = find_segments(forward_.followers, must_tile);
    segments_.clear();
    segment_of_.assign(segment_of_.size(), -1);
    if (!found) return false;
    for (const TileSegment& range : *found) {
      Segment segment;
      for (std::int32_t node = range.first; node <= range.last; ++node) {
        segment.ops.push_back(forward_.ops[node]);
        segment_of_[forward_.ops[node]] = static_cast<std::int32_t>(segments_.size());
      }
      segment.nodes = tile_graph(graph_, segment.ops);
      for (const std::int32_t dim : ft_dims(segment.nodes)) {
        segment.samples = segment.samples || dim == 0;
        if (dim >= 2) segment.space.push_back(dim);
      }
      if (segment.space.empty() && !segment.samples) return false;
      segments_.push_back(std::move(segment));
    }
    return true;
  }

  // Segments run in passes, forward and backward, and their ends are stored.
  Tiling tiling_of_segments(Remake remake) const {
    IdVector<OpId, bool> tiled;
    IdVector<ValueId, bool> cuts(graph_.value_count());
    for (std::int64_t o = 0; o < graph_.op_count(); ++o) {
      const Op& op = graph_.op(OpId(o));
      const OpId of = op.phase == Phase::backward ? op.forward : OpId(o);
      tiled.push_back(op.phase != Phase::update && of && segment_of_[of] >= 0 && can_tile(graph_, OpId(o), Cut::space));
    }
    for (const Segment& segment : segments_)
      for (const ValueId output : graph_.op(segment.ops.back()).outputs) cuts[output] = true;
    return tiling_of(request_, std::move(tiled), std::move(cuts), remake);
  }

  TiledChoice choice_of(const Tiling& tiling, TiledChoice::Stream stream, bool finer) const {
    return {.tiling = tiling, .halo = TiledChoice::Halo::overlap, .stream = stream, .cut = [this, finer](PassTrial& trial) {
              return cut(trial, finer);
            }};
  }

  enum class Outcome : std::uint8_t { fastest, none, put_off };
  // Keeps the plan where it is the fastest so far.
  Outcome consider(TiledChoice choice, double patience) {
    choice.most_seconds = std::min(request_.most_seconds, fastest_ ? fastest_->seconds : request_.most_seconds);
    const bool is_patient = patience >= choice.most_seconds;
    choice.most_seconds = std::min(choice.most_seconds, patience);
    choice.most_needed = fastest_ ? 0 : lacking_.device_bytes();
    TiledAttempt attempt = tiled_plan(request_, "sft", choice, memory_);
    if (attempt.slow && !is_patient) return Outcome::put_off;
    if (!attempt.plan && !fastest_) lacking_.add(request_, attempt);
    if (!attempt.plan || (fastest_ && attempt.plan->seconds >= fastest_->seconds)) return Outcome::none;
    fastest_ = std::move(attempt.plan);
    return Outcome::fastest;
  }

  const Segment* segment_of(const Pass& pass) const {
    for (const OpId id : pass.ops) {
      const OpId of = graph_.op(id).forward ? graph_.op(id).forward : id;
      if (segment_of_[of] >= 0) return &segments_[segment_of_[of]];
    }
    return nullptr;
  }

  // Cuts a pass: the fewest samples, else single samples and 2ⁿ tiles along each dimension of space, else more along one than along
  // the others if that is faster.
  bool cut(PassTrial& trial, bool finer) const {
    const Segment* segment = segment_of(trial.pass());
    const Dims& shape = trial.driver().shape;
    Dims extents = shape;
    const auto divide_space = [&](std::int64_t along_last, std::int64_t along_others) {
      for (const int dim : segment->space) {
        const std::int64_t tiles = std::min(shape[dim], dim == segment->space.back() ? along_last : along_others);
        extents[dim] = (shape[dim] + tiles - 1) / tiles;
      }
    };
    if (tiles_ > 0) {
      divide_space(tiles_, tiles_);
      return trial.fits(extents);
    }
    if (trial.fits(extents)) return true;
    if (segment->samples)
      while (extents[0] > 1) {
        extents[0] = (extents[0] + 1) / 2;
        if (trial.fits(extents)) return true;
      }
    std::int64_t most = 1;
    for (const int dim : segment->space) most = std::max(most, shape[dim]);
    std::int64_t tiles = 1;
    const Segment here = part_of(*segment, trial.pass());
    do {
      if (tiles >= most) return false;
      tiles *= 2;
      divide_space(tiles, tiles);
    } while (held_for_backward(here, trial.pass(), shape, tiles) > trial.limit() || !trial.fits(extents));
    if (!finer) return true;

    double fastest = trial.seconds();
    std::int64_t best_last = tiles, best_others = tiles;
    for (std::int64_t last = 1; last <= tiles; last += (last + 2) / 3) {
      std::int64_t not_fits = 0, fits = most;
      divide_space(last, fits);
      if (!trial.fits(extents)) continue;
      while (not_fits + 1 < fits) {
        const std::int64_t middle = not_fits + (fits - not_fits) / 2;
        divide_space(last, middle);
        (trial.fits(extents) ? fits : not_fits) = middle;
      }
      divide_space(last, fits);
      trial.fits(extents);
      if (trial.seconds() >= fastest) continue;
      fastest = trial.seconds();
      best_last = last;
      best_others = fits;
    }
    divide_space(best_last, best_others);
    return trial.fits(extents);
  }

  // The ops of a segment that a pass runs.
  Segment part_of(const Segment& segment, const Pass& pass) const {
    IdVector<OpId, bool> here(graph_.op_count(), false);
    for (const OpId id : pass.ops) here[id] = true;
    Segment part{.space = segment.space, .samples = segment.samples};
    Table<std::int32_t> number(segment.ops.size(), TileInput::kOutside);
    for (std::int64_t n = 0; n < segment.ops.size(); ++n) {
      if (!here[segment.ops[n]]) continue;
      number[n] = static_cast<std::int32_t>(part.ops.size());
      part.ops.push_back(segment.ops[n]);
      part.nodes.push_back(segment.nodes[n]);
      for (TileInput& input : part.nodes.back().inputs)
        if (input.source != TileInput::kOutside) input.source = number[input.source];
    }
    return part;
  }

  // The bytes that a tile in the middle must hold where forward has been made again and backward begins, by Listing 4: less than
  // this no pass takes that runs these ops of the segment.
  std::int64_t held_for_backward(const Segment& segment, const Pass& pass, const Dims& shape, std::int64_t tiles) const {
    IdVector<ValueId, bool> read(graph_.value_count(), false);
    for (const OpId id : pass.ops)
      if (graph_.op(id).phase == Phase::backward)
        for (const ValueId input : graph_.op(id).inputs) read[input] = true;
    Table<Table<bool>> divided;
    for (const TileNode& node : segment.nodes) {
      divided.emplace_back(node.iterations.size(), false);
      for (const int dim : segment.space)
        if (dim < divided.back().size()) divided.back()[dim] = true;
    }
    const TileSpaces<Interval> spaces = tile_ranges(segment.nodes, divided, tiles, tiles / 2);
    std::int64_t held = 0;
    for (std::int64_t n = 0; n < segment.nodes.size(); ++n) {
      if (segment.nodes[n].combines) continue;
      for (const ValueId output : graph_.op(segment.ops[n]).outputs) {
        if (!read[output]) continue;
        const ValueType& type = graph_.value(output).type;
        if (type.shape != graph_.value(graph_.op(segment.ops[n]).outputs[0]).type.shape) continue;
        Dims part = type.shape;
        for (int dim = 0; dim < part.rank(); ++dim) part[dim] = spaces.iterations[n][dim].size();
        if (segment.samples && shape[0] > 1) part[0] = 1;
        held += stored_bytes(request_.storage, type, part);
      }
    }
    return held;
  }

  const PlanRequest& request_;
  const Graph& graph_;
  const ForwardOps forward_;
  PassMemory memory_;
  const std::int64_t tiles_;        // as the user gave them; 0: as few as fit
  std::vector<std::int64_t> made_;  // bytes, by op of forward
  Table<Segment> segments_;
  IdVector<OpId, std::int32_t> segment_of_;  // by op; −1: none
  std::optional<TiledPlan> fastest_;
  Setting fastest_setting_;
  const double patience_;         // seconds
  std::vector<Setting> put_off_;  // they take longer
  Lacking lacking_;
};

}  // namespace

Planned<Plan> plan_sft(const PlanRequest& request) {
  const bool has_maps = cut_of(request.graph) == Cut::space;
  Planned<Plan> plan = has_maps ? SftPlanner(request).make() : plan_keep(request);  // its segments are of maps
  if (!plan) return plan;
  plan->planner = "sft";
  // Later programs of a run may be smaller than the one that its options are for.
  if (request.options.has(kSftTiles) && plan->passes.empty() && request.homes.empty())
    return refusal_of(
        request, "sft",
        fmt::format("tiles={}, but {}", request.options.integer(kSftTiles),
                    has_maps ? "each of its values fits and nothing is tiled; a smaller capacity= tiles what is larger"
                             : "it has no maps that could be tiled"));
  return plan;
}

std::vector<PlannerOption> sft_options() { return {kSftTiles, kSftGrid, kSftCapacity, kRemake}; }

}  // namespace outsize
