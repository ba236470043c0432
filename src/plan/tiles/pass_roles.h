#pragma once

#include <cstdint>
#include <vector>

#include "base/id_set.h"
#include "base/id_vector.h"
#include "graph/opdef.h"
#include "plan/plan.h"

namespace outsize {

// How an op of a pass gets its boxes in a tile.
enum class OpMode : std::uint8_t {
  gather,  // upstream of the driver: on demand, from the box of its output
  push,    // downstream of it: from the box of its driver input
  front,   // a gradient computed by gather as far as its inputs reach (gradients=gather)
};

// What a value is to a pass.
enum class ValueClass : std::uint8_t {
  none,      // not touched
  external,  // made elsewhere, read by windows
  gathered,  // made here by gather
  pushed,    // made here by push, tile by tile
  fronted,   // made here by front
  reduced,   // made here, combined over tiles, complete only after the pass
};

// What the ops and values of a pass are to it, however it is cut: the same for all cuts that are tried.
class PassRoles {
 public:
  // `read_later`: of the values that the pass touches, those that a step after it reads or the graph puts out. Throws UserError
  // naming pass, op and value when the pass cannot be tiled as it says.
  PassRoles(const Graph& graph, const Pass& pass, const IdSet<ValueId>& read_later);

  const Graph& graph() const { return graph_; }
  // Its cuts mean nothing here.
  const Pass& pass() const { return pass_; }
  OpMode mode(std::size_t op_of_pass) const { return modes_[op_of_pass]; }
  // Those of values that the pass does not touch are none.
  ValueClass value_class(ValueId value) const { return role_of(value).kind; }
  bool shared(ValueId value) const { return role_of(value).shared; }
  bool leaves(ValueId value) const { return role_of(value).leaves; }
  // Stored or reduced over: owned boxes must cover the value.
  bool owned_wanted(ValueId value) const { return role_of(value).owned_wanted; }
  // All values the pass touches, ascending, and where one of them stands there.
  const std::vector<ValueId>& values() const { return values_; }
  std::size_t slot(ValueId value) const { return static_cast<std::size_t>(places_.of(value)); }
  // The dimension of a value that a cut along dimension `dim` of the driver cuts, or kNoDim.
  static constexpr int kNoDim = -1;
  int dim_of(ValueId value, int dim) const { return dims_[slot(value)][static_cast<std::size_t>(dim)]; }
  // What the value has along it; 1 where it has none.
  std::int64_t extent(ValueId value, int dim) const {
    const int own = dim_of(value, dim);
    return own == kNoDim ? 1 : graph_.value(value).type.shape[own];
  }
  // Whether a value is what runs down from the driver: itself, or a gradient pushed or fronted.
  bool flows(ValueId value) const {
    return value == pass_.driver || value_class(value) == ValueClass::pushed || value_class(value) == ValueClass::fronted;
  }

 private:
  struct ValueRole {
    ValueClass kind = ValueClass::none;
    bool shared = false;
    bool leaves = false;
    bool owned_wanted = false;
  };

  ValueRole role_of(ValueId value) const {
    const std::int32_t place = places_.of(value);
    return place == IdPlaces<ValueId>::kNone ? ValueRole{} : roles_[static_cast<std::size_t>(place)];
  }
  ValueRole& role(ValueId value) { return roles_[slot(value)]; }
  OpSite site(std::size_t op_of_pass) const { return {graph_, graph_.op(pass_.ops[op_of_pass])}; }
  [[noreturn]] void before_barrier(const Op& op, ValueId value) const;
  void classify(const IdSet<ValueId>& read_later);
  void map_dims();
  std::vector<int> same_dims(ValueId value) const;

  const Graph& graph_;
  const Pass& pass_;
  std::vector<OpMode> modes_;
  std::vector<ValueId> values_;
  IdPlaces<ValueId> places_;            // in values_
  std::vector<ValueRole> roles_;        // by slot
  std::vector<std::vector<int>> dims_;  // by slot, then dimension of the driver
};

}  // namespace outsize
