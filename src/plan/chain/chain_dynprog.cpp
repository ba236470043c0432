#include "plan/chain/chain_dynprog.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "plan/chain/chain_offload.h"

namespace outsize {

namespace {

// A chain in slots. Times are told by what the link carries in them.
struct SlotChain {
  std::vector<std::int64_t> x;                          // |x_i|
  std::vector<std::int64_t> forward, backward;          // u_F β, u_B β
  std::vector<std::int64_t> forward_own, backward_own;  // what F_i, B_i need beside x_i and x_{i+1}
  std::int64_t memory = 0;                              // S

  std::size_t layers() const { return forward.size(); }
  // What x_0 … x_{i−1} may take while F_i, B_i run.
  std::int64_t forward_room(std::size_t i) const { return memory - x[i] - x[i + 1] - forward_own[i]; }
  std::int64_t backward_room(std::size_t i) const { return memory - x[i] - x[i + 1] - backward_own[i]; }
  std::int64_t room(std::size_t i) const { return std::min(forward_room(i), backward_room(i)); }
};

// An entry of Idle_i. N, what of x_0 … x_{i−1} stays, stands for both M_F = N + |x_i| + Δ_F⁺ and M_B = N + |x_i| + |y_i| + Δ_B⁺.
struct State {
  std::int64_t stay = 0;  // N
  std::int64_t out = 0;  // Δ_F: still to leave after F_{i−1}; negative: what the link could have carried since the last transfer
  std::int64_t in = 0;   // Δ_B: to come back before B_{i−1} starts; negative: what it could carry until the first transfer
  std::int64_t idle = 0;
  std::uint32_t from = 0;  // its entry in Idle_{i−1}
  bool offloaded = false;  // x_{i−1}
};

constexpr std::int64_t kFar = std::int64_t{1} << 60;  // beyond all sums of sizes

std::int64_t positive(std::int64_t a) { return std::max<std::int64_t>(0, a); }

// Whether whatever follows `b` may follow `a` with no more idle time: `a` keeps no more, and where more of it is under way it may
// wait for that and still not be later.
bool dominates(const State& a, const State& b) {
  return a.stay <= b.stay && a.idle + positive(a.out - b.out) + positive(a.in - b.in) <= b.idle;
}

// What all completions of an entry of Idle_i share.
struct Bounds {
  std::int64_t room = kFar;  // the most that may stay: the least room of the ops from i on
  // Of ops j ≥ i, the most of Σ_{i≤k<j} |x_k| less the op's room, and less what the link carries until the op.
  std::int64_t excess = -kFar;
  std::int64_t forward_excess = -kFar, backward_excess = -kFar;
  std::int64_t link = 0;  // what the link carries during F_i … B_i
};

// Algorithm 1 over a chain in slots. Entries that another one dominates, and those that cannot end below the best known, are left
// out; neither changes the least idle time.
class DynamicProgramme {
 public:
  explicit DynamicProgramme(const SlotChain& chain) : chain_(chain), bounds_(chain.layers() + 1) {
    std::int64_t forward_after = 0, backward_after = 0;  // U_j^F β, U_j^B β
    std::int64_t gone = -chain.x.back();                 // Σ_{k>i+1} |x_k| − |x_{L+1}|
    for (std::size_t i = chain.layers(); i-- > 0;) {
      const Bounds& next = bounds_[i + 1];
      bounds_[i].room = std::min(next.room, chain.room(i));
      bounds_[i].excess = std::max(next.excess + chain.x[i], -chain.room(i));
      bounds_[i].forward_excess = std::max(next.forward_excess + chain.x[i] - chain.forward[i], -chain.forward_room(i));
      bounds_[i].backward_excess = std::max(next.backward_excess + chain.x[i] - chain.backward[i], -chain.backward_room(i));
      bounds_[i].link = next.link + chain.forward[i] + chain.backward[i];
      join_forward_ = std::max(join_forward_, chain.forward_own[i] - chain.memory - gone - forward_after);
      join_backward_ = std::max(join_backward_, chain.backward_own[i] - chain.memory - gone - backward_after);
      forward_after += chain.forward[i];
      backward_after += chain.backward[i];
      gone += chain.x[i + 1];
    }
  }

  // The decisions with the least idle time, or nullopt when none fits.
  std::optional<std::vector<bool>> solve() {
    if (bounds_[0].room < 0) return std::nullopt;
    best_ = eager();
    best_idle_ = idle(best_).value();
    constexpr std::size_t kBeam = 64;
    constexpr std::size_t kAll = std::numeric_limits<std::uint32_t>::max();
    search(kBeam);  // a good end early leaves few entries to the whole search
    search(kAll);
    return best_;
  }

  // Idle time of given decisions, or nullopt when they do not fit.
  std::optional<std::int64_t> idle(const std::vector<bool>& offloaded) const {
    State state;
    for (std::size_t i = 0; i < chain_.layers(); ++i) {
      if (state.stay > chain_.room(i)) return std::nullopt;
      state = next(state, i, offloaded[i]);
    }
    return state.idle + between(state);
  }

 private:
  // The entry of Idle_{i+1} that follows an entry of Idle_i: equations (1) to (8).
  State next(const State& state, std::size_t i, bool offloaded) const {
    const std::int64_t x = chain_.x[i];
    const std::int64_t wait_forward = positive(state.stay + positive(state.out) - chain_.forward_room(i));   // ε^F β
    const std::int64_t wait_backward = positive(state.stay + positive(state.in) - chain_.backward_room(i));  // ε^B β
    const std::int64_t carried_forward = wait_forward + chain_.forward[i];
    const std::int64_t carried_backward = wait_backward + chain_.backward[i];
    State after;
    after.offloaded = offloaded;
    after.idle = state.idle + wait_forward + wait_backward;
    if (offloaded) {
      after.stay = state.stay;
      after.out = positive(state.out) + x - carried_forward;
      after.in = x + positive(state.in - carried_backward);
    } else {
      after.stay = state.stay + x;
      after.out = state.out - carried_forward;
      after.in = state.in - carried_backward;
    }
    // At most S is ever under way: a link free for longer is worth no more.
    after.out = std::max(after.out, -chain_.memory);
    after.in = std::max(after.in, -chain_.memory);
    return after;
  }

  // ε_G β of an entry of Idle_{L+1}: equations (9) and (10) in one. Their cases and their limits on j may go: outside of them the
  // terms are no more than the others, since every op fits when nothing is under way.
  std::int64_t between(const State& state) const {
    return std::max({std::int64_t{0}, state.out + state.in, join_backward_ + state.stay + positive(state.out),
                     join_forward_ + state.stay + positive(state.in)});
  }

  // No completion of an entry of Idle_i has less idle time: what is too much for an op must leave before it, in forward and, told
  // from the end, in backward; and the link carries all that is under way and twice all that must still leave.
  std::int64_t least_idle(const State& state, std::size_t i) const {
    const Bounds& bounds = bounds_[i];
    const std::int64_t passes = positive(state.stay + positive(state.out) + bounds.forward_excess) +
                                positive(state.stay + positive(state.in) + bounds.backward_excess);
    const std::int64_t link = state.out + state.in + 2 * positive(state.stay + bounds.excess) - bounds.link;
    return state.idle + std::max(passes, link);
  }

  // As Greedy does: the first ones leave, as few as fit.
  std::vector<bool> eager() const {
    std::vector<bool> offloaded(chain_.layers(), false);
    for (std::size_t i = 0; i < chain_.layers() && !idle(offloaded); ++i) offloaded[i] = chain_.x[i] > 0;
    return offloaded;
  }

  // Looks for decisions better than the best known, with at most `width` entries in every Idle_i.
  void search(std::size_t width) {
    std::vector<std::vector<State>> idles{{State{}}};
    for (std::size_t i = 0; i < chain_.layers(); ++i) {
      std::vector<State> entries;
      for (std::size_t at = 0; at < idles[i].size(); ++at) {
        for (const bool offloaded : {false, true}) {
          if (offloaded && chain_.x[i] == 0) continue;
          State entry = next(idles[i][at], i, offloaded);
          entry.from = static_cast<std::uint32_t>(at);
          if (entry.stay <= bounds_[i + 1].room && least_idle(entry, i + 1) < best_idle_) entries.push_back(entry);
        }
      }
      thin_out(entries);
      if (entries.size() > width) {
        std::nth_element(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(width), entries.end(),
                         [&](const State& a, const State& b) { return least_idle(a, i + 1) < least_idle(b, i + 1); });
        entries.resize(width);
      }
      idles.push_back(std::move(entries));
    }
    const State* end = nullptr;
    for (const State& state : idles.back()) {
      const std::int64_t idle = state.idle + between(state);
      if (idle >= best_idle_) continue;
      best_idle_ = idle;
      end = &state;
    }
    if (end == nullptr) return;
    std::uint32_t at = static_cast<std::uint32_t>(end - idles.back().data());
    for (std::size_t i = chain_.layers(); i-- > 0;) {
      best_[i] = idles[i + 1][at].offloaded;
      at = idles[i + 1][at].from;
    }
  }

  // Leaves out entries that others dominate.
  static void thin_out(std::vector<State>& entries) {
    std::sort(entries.begin(), entries.end(), [](const State& a, const State& b) {
      return a.stay != b.stay ? a.stay < b.stay
                              : a.idle + positive(a.out) + positive(a.in) < b.idle + positive(b.out) + positive(b.in);
    });
    std::size_t kept = 0;
    for (const State& entry : entries) {
      bool dominated = false;
      for (std::size_t at = kept; at-- > 0 && !dominated;) dominated = dominates(entries[at], entry);
      if (!dominated) entries[kept++] = entry;
    }
    entries.resize(kept);
  }

  const SlotChain& chain_;
  std::vector<Bounds> bounds_;
  // The last terms of equations (10) and (9), less N and Δ⁺.
  std::int64_t join_forward_ = -kFar, join_backward_ = -kFar;
  std::vector<bool> best_;
  std::int64_t best_idle_ = 0;
};

// ⌊(S/M) Σ_{j<i} u_j β⌋, taken apart again. No op is long enough to need more than `most`.
std::vector<std::int64_t> carried_slots(const std::vector<double>& seconds, double slots_a_second, double most) {
  std::vector<std::int64_t> carried;
  double sum = 0;
  double before = 0;
  for (const double u : seconds) {
    sum += u * slots_a_second;
    // A sum that rounding put just below a whole slot is that slot.
    const double after = std::floor(sum * (1 + 1e-12));
    carried.push_back(static_cast<std::int64_t>(std::min(after - before, most)));
    before = after;
  }
  return carried;
}

// The optimistic rounding: |x| in partial sums rounded up.
SlotChain in_slots(const Chain& chain, std::int64_t memory, double bandwidth, std::int64_t slots) {
  SlotChain result;
  result.memory = slots;
  const double slots_a_second = bandwidth * static_cast<double>(slots) / static_cast<double>(memory);
  // From S under way and as much more that leaves, to S not used.
  const double most = 3 * static_cast<double>(slots);
  result.forward = carried_slots(chain.forward, slots_a_second, most);
  result.backward = carried_slots(chain.backward, slots_a_second, most);
  const auto up = [&](std::int64_t bytes) { return slots_up(bytes, slots, memory); };
  for (std::size_t i = 0; i < chain.layers(); ++i) {
    result.forward_own.push_back(up(chain.forward_extra[i]));
    result.backward_own.push_back(up(chain.backward_extra[i]) + up(chain.y[i]) + up(chain.y[i + 1]));
  }
  std::int64_t sum = 0;
  for (const std::int64_t bytes : chain.x) {
    result.x.push_back(up(sum + bytes) - up(sum));
    sum += bytes;
  }
  return result;
}

// Raises by one the |x_j| in slots that is below its bytes and closest to them, of those that take room in the first op that does
// not fit in bytes. There is one, for else the op would not fit in slots either.
void raise_one(SlotChain& rounded, const Chain& chain, const std::vector<bool>& offloaded, std::int64_t memory) {
  std::int64_t stay = 0;
  std::size_t op = 0;
  while (stay + std::max(forward_bytes(chain, op), backward_bytes(chain, op)) <= memory) {
    if (!offloaded[op]) stay += chain.x[op];
    ++op;
    OUTSIZE_CHECK(op < chain.layers());
  }
  std::optional<std::size_t> closest;
  double least = 0;
  for (std::size_t j = 0; j <= op + 1; ++j) {
    if (j < op && offloaded[j]) continue;
    const double below = static_cast<double>(chain.x[j]) * (static_cast<double>(rounded.memory) / static_cast<double>(memory)) -
                         static_cast<double>(rounded.x[j]);
    if (rounded.x[j] >= slots_up(chain.x[j], rounded.memory, memory) || (closest && below >= least)) continue;
    closest = j;
    least = below;
  }
  OUTSIZE_CHECK(closest.has_value());
  ++rounded.x[*closest];
}

}  // namespace

std::optional<std::vector<bool>> dynprog_offload(const Chain& chain, std::int64_t memory, double bandwidth, int slots) {
  check_chain(chain);
  OUTSIZE_CHECK(memory > 0 && bandwidth > 0 && std::isfinite(bandwidth) && slots > 0);
  SlotChain rounded = in_slots(chain, memory, bandwidth, std::min<std::int64_t>(slots, memory));
  while (true) {
    const std::optional<std::vector<bool>> decisions = DynamicProgramme(rounded).solve();
    if (!decisions || interruptible_offload_seconds(chain, *decisions, memory, bandwidth)) return decisions;
    do {
      raise_one(rounded, chain, *decisions, memory);
    } while (DynamicProgramme(rounded).idle(*decisions));
  }
}

}  // namespace outsize
