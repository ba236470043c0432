#pragma once

#include <array>
#include <optional>
#include <vector>

#include "small_chain.h"

namespace outsize {

enum class Transfers {
  whole,      // Problem 1: bytes count until the last of their activation has left, and from when its first comes back
  by_byte,    // Problem 2: every byte counts by itself; all bytes of the chosen activations leave and come back, once
  any_amount  // Theorem 2: any byte may leave and come back, any number of times
};

// The least time in units, by breadth-first search over all there is to do in each unit of time: the current op may begin, go on or
// not begin yet, and one byte may leave, come back or not. Written from the statement of the model; shares nothing with what it
// tests. What leaves does so in increasing order and comes back in decreasing order (Lemmas 1 and 3).
class UnitSteps {
 public:
  UnitSteps(const SmallChain& small, int memory, Transfers transfers, const std::vector<bool>& offloaded)
      : small_(small), memory_(memory), transfers_(transfers), layers_(small.layers()) {
    made_.assign(1, 0);
    leaving_.assign(1, 0);
    for (int i = 0; i < layers_; ++i) {
      const int bytes = static_cast<int>(small.chain.x[at(i)]);
      made_.push_back(made_.back() + bytes);
      leaving_.push_back(leaving_.back() + (transfers == Transfers::any_amount || offloaded[at(i)] ? bytes : 0));
      for (int byte = leaving_[at(i)]; byte < leaving_[at(i) + 1]; ++byte) owner_.push_back(i);
    }
    positions_ = transfers == Transfers::any_amount ? total() + 1 : 2 * total() + 1;
  }

  std::optional<int> least() {
    constexpr int kLongest = 3;  // units of an op
    seen_.assign(static_cast<std::size_t>((2 * layers_ + 1) * (kLongest + 1) * positions_), false);
    std::vector<State> now, later;
    visit({0, 0, 0}, now);
    for (int time = 0; !now.empty(); ++time) {
      later.clear();
      for (std::size_t n = 0; n < now.size(); ++n) {
        const State state = now[n];
        if (state.op == 2 * layers_ && hosted(state.position) == 0 &&
            (transfers_ == Transfers::any_amount || state.position + 1 == positions_)) {
          return time;
        }
        // An op that takes no time.
        if (state.op < 2 * layers_ && units(state.op) == 0 && may_run(state, state.position)) {
          visit({state.op + 1, 0, state.position}, now);
        }
        for (const int move : {0, 1, -1}) {
          if (move != 0 && !may_move(state, move)) continue;
          const int position = state.position + move;
          if (state.done == 0) visit({state.op, 0, position}, later);
          if (state.op == 2 * layers_ || units(state.op) == 0 || !may_run(state, position)) continue;
          const bool ends = state.done + 1 == units(state.op);
          visit(ends ? State{state.op + 1, 0, position} : State{state.op, state.done + 1, position}, later);
        }
      }
      now.swap(later);
    }
    return std::nullopt;
  }

 private:
  // `op` 0 … 2·layers: F_0 … F_L, B_L … B_0, the end; `done` units of it have run. `position`: bytes moved so far, or bytes on the
  // host.
  struct State {
    int op, done, position;
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int total() const { return leaving_.back(); }
  bool forward(int op) const { return op < layers_; }
  int layer(int op) const { return forward(op) ? op : 2 * layers_ - 1 - op; }
  int units(int op) const { return forward(op) ? small_.forward[at(op)] : small_.backward[at(layer(op))]; }
  // The bytes on the host are the first so many of those that may leave.
  int hosted(int position) const { return position <= total() ? position : 2 * total() - position; }
  // The bytes that take no memory on the device.
  int freed(int position) const {
    const int bytes = hosted(position);
    if (transfers_ != Transfers::whole) return bytes;
    return *(std::upper_bound(leaving_.begin(), leaving_.end(), bytes) - 1);
  }

  void visit(const State& state, std::vector<State>& states) {
    auto seen = seen_[static_cast<std::size_t>((state.op * 4 + state.done) * positions_ + state.position)];
    if (seen) return;
    seen = true;
    states.push_back(state);
  }

  // While the link goes to `position`. x_i and x_{i+1} take their memory as long as the op runs, and B_i finds them there.
  bool may_run(const State& state, int position) const {
    const int i = layer(state.op);
    if (!forward(state.op) && std::max(hosted(state.position), hosted(position)) > leaving_[at(i)]) return false;
    const int away = std::min({freed(state.position), freed(position), leaving_[at(i)]});
    const Chain& chain = small_.chain;
    const std::int64_t own = forward(state.op) ? forward_bytes(chain, at(i)) : backward_bytes(chain, at(i));
    return made_[at(i)] - away + own <= memory_;
  }

  bool may_move(const State& state, int move) const {
    if (transfers_ != Transfers::any_amount) {
      if (move < 0 || state.position + 1 == positions_) return false;
      if (state.position >= total()) return true;
    } else if (move < 0) {
      return state.position > 0;
    }
    if (state.position == total()) return false;
    const int owner = owner_[at(state.position)];
    const int last_use = 2 * layers_ - 1 - owner;  // B_i
    return owner <= state.op && (state.op < last_use || (state.op == last_use && state.done == 0));
  }

  const SmallChain& small_;
  int memory_;
  Transfers transfers_;
  int layers_;
  std::vector<int> made_, leaving_;  // Σ_{j<i} of |x_j| and of what may leave
  std::vector<int> owner_;           // of each byte that may leave
  int positions_ = 0;
  std::vector<bool> seen_;
};

inline std::optional<int> least_units(const SmallChain& small, int memory, Transfers transfers,
                                      const std::vector<bool>& offloaded = {}) {
  return UnitSteps(small, memory, transfers, offloaded).least();
}

}  // namespace outsize
