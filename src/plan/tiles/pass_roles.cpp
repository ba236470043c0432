#include "plan/tiles/pass_roles.h"

#include <algorithm>

namespace outsize {

namespace {

// All values that a pass touches, ascending.
std::vector<ValueId> touched_by(const Graph& graph, const Pass& pass) {
  std::vector<ValueId> values;
  for (const OpId op : pass.ops)
    for (const std::vector<ValueId>* list : {&graph.op(op).inputs, &graph.op(op).outputs})
      values.insert(values.end(), list->begin(), list->end());
  return IdSet<ValueId>(std::move(values)).ids();
}

// A mark for each of a pass's values; those that it does not touch never have one.
class SlotMarks {
 public:
  explicit SlotMarks(const IdPlaces<ValueId>& places, std::size_t count) : places_(places), marked_(count) {}
  bool operator[](ValueId value) const {
    const std::int32_t place = places_.of(value);
    return place != IdPlaces<ValueId>::kNone && marked_[static_cast<std::size_t>(place)];
  }
  void put(ValueId value) {
    if (const std::int32_t place = places_.of(value); place != IdPlaces<ValueId>::kNone)
      marked_[static_cast<std::size_t>(place)] = true;
  }

 private:
  const IdPlaces<ValueId>& places_;
  std::vector<bool> marked_;
};

// Whether a box of the op's output 0 can be computed by itself.
bool gathers(const OpSite& site) { return site.op.def->can_gather(site) || site.op.def->gathers_sums(site); }

}  // namespace

PassRoles::PassRoles(const Graph& graph, const Pass& pass, const IdSet<ValueId>& read_later)
    : graph_(graph), pass_(pass), values_(touched_by(graph, pass)), places_(values_), roles_(values_.size()) {
  const Value& driver = graph.value(pass.driver);
  if (driver.producer && !gathers({graph, graph.op(driver.producer)}))
    user_error(
        "pass {}: its driver {} is the result of a reduction and is complete only after all tiles; choose what op {} reduces",
        pass.name, driver.name, graph.op(driver.producer).name);
  classify(read_later);
  map_dims();
}

void PassRoles::before_barrier(const Op& op, ValueId value) const {
  user_error("pass {}: op {} reads {}, which is complete only after the pass; end the pass before it", pass_.name, op.name,
             graph_.value(value).name);
}

void PassRoles::classify(const IdSet<ValueId>& read_later) {
  modes_.assign(pass_.ops.size(), OpMode::gather);
  SlotMarks made(places_, values_.size()), down(made), wanted(made);
  const auto outlives = [&](ValueId v) { return read_later.contains(v) || graph_.value(v).version_of; };

  // What depends on the driver is pushed (or follows its front); everything it and they need is gathered.
  down.put(pass_.driver);
  std::vector<bool> downstream(pass_.ops.size(), false);
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    const Op& op = graph_.op(pass_.ops[k]);
    for (ValueId input : op.inputs) downstream[k] = downstream[k] || down[input];
    for (ValueId output : op.outputs) {
      made.put(output);
      if (downstream[k]) down.put(output);
    }
  }
  wanted.put(pass_.driver);
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    const Op& op = graph_.op(pass_.ops[k]);
    if (downstream[k]) {
      for (ValueId input : op.inputs)
        if (!down[input]) wanted.put(input);
    } else if (op.def->can_gather({graph_, op})) {
      for (ValueId output : op.outputs)
        if (outlives(output)) wanted.put(output);
    }
  }
  for (std::size_t k = pass_.ops.size(); k-- > 0;) {
    const Op& op = graph_.op(pass_.ops[k]);
    const OpSite here{graph_, op};
    if (downstream[k]) {
      for (ValueId input : op.inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer && made[input] && !graph_.op(producer).def->can_gather({graph_, graph_.op(producer)}) &&
            (down[input] || !gathers({graph_, graph_.op(producer)})))
          before_barrier(op, input);
      }
      if (op.phase == Phase::forward && op.def->can_gather(here) && op.def->combine(here, 0) == Combine::none)
        user_error(
            "pass {}: op {} lies downstream of the driver {} and is neither a reduction nor a gradient; choose a driver further "
            "down",
            pass_.name, op.name, graph_.value(pass_.driver).name);
      modes_[k] = pass_.gather_gradients && op.phase == Phase::backward && op.def->can_gather(here) ? OpMode::front : OpMode::push;
      continue;
    }
    const bool demanded = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return wanted[v]; });
    if (demanded) {
      for (ValueId input : op.inputs) wanted.put(input);
      continue;
    }
    if (op.def->can_gather(here)) user_error("pass {}: nothing reads what op {} makes; leave it out", pass_.name, op.name);
    modes_[k] = OpMode::push;
    for (ValueId input : op.inputs) wanted.put(input);
  }

  SlotMarks seen(places_, values_.size());
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    const Op& op = graph_.op(pass_.ops[k]);
    const OpSite here{graph_, op};
    for (ValueId input : op.inputs) {
      ValueClass& kind = role(input).kind;
      if (kind == ValueClass::reduced) before_barrier(op, input);
      if (!seen[input]) kind = ValueClass::external;
      seen.put(input);
    }
    for (ValueId output : op.outputs) {
      if (seen[output])
        user_error("pass {}: op {} makes {} after the pass has read it", pass_.name, op.name, graph_.value(output).name);
      seen.put(output);
      const bool complete_later = !op.def->can_gather(here) || op.phase == Phase::forward;
      role(output).kind = modes_[k] == OpMode::gather && gathers(here) ? ValueClass::gathered
                          : modes_[k] == OpMode::front                 ? ValueClass::fronted
                          : complete_later                             ? ValueClass::reduced
                                                                       : ValueClass::pushed;
      role(output).leaves = outlives(output);
    }
  }
  if (!seen[pass_.driver])
    user_error("pass {}: its driver {} is neither made nor read by its ops", pass_.name, graph_.value(pass_.driver).name);

  const IdSet<ValueId> share(pass_.share);
  for (ValueId id : values_) {
    const Value& value = graph_.value(id);
    ValueRole& of = role(id);
    if (of.kind == ValueClass::gathered) of.shared = share.contains(id);
    if (of.kind == ValueClass::pushed)
      of.shared = pass_.descending && !value.partial && value.gradient_of && share.contains(value.gradient_of);
    if (of.kind == ValueClass::fronted) of.shared = true;
    if (of.kind == ValueClass::gathered) of.owned_wanted = of.leaves;
  }
  for (OpId id : pass_.ops) {  // one call makes all outputs of an op: they are shared together
    const std::vector<ValueId>& outputs = graph_.op(id).outputs;
    const bool any = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return shared(v); });
    for (ValueId output : outputs)
      if (any && value_class(output) == ValueClass::gathered) role(output).shared = true;
  }
  role(pass_.driver).owned_wanted = true;
  for (std::size_t k = 0; k < pass_.ops.size(); ++k) {
    if (modes_[k] == OpMode::gather) continue;
    const OpSite here = site(k);
    const ValueId driver = here.op.inputs[static_cast<std::size_t>(here.op.def->push_driver(here))];
    if (here.op.def->has_owned_terms(here) || !down[driver]) role(driver).owned_wanted = true;
  }
}

// Values of a pass need not have its dimensions in the driver's order: labels have no channels, attention moves its heads. Which
// dimension of a value a tile cuts is seen from which dimension of its boxes a cut makes smaller.
void PassRoles::map_dims() {
  const int rank = graph_.value(pass_.driver).type.shape.rank();
  dims_.assign(values_.size(), {});
  const auto known = [&](ValueId value) { return !dims_[slot(value)].empty(); };
  const auto make_known = [&](ValueId value, std::vector<int> dims) { dims_[slot(value)] = std::move(dims); };
  std::vector<int> same;
  for (int dim = 0; dim < rank; ++dim) same.push_back(dim);
  make_known(pass_.driver, same);

  const auto call_on = [&](std::size_t k, const Box& box) {
    const OpSite here = site(k);
    return modes_[k] == OpMode::push ? here.op.def->push(here, box) : here.op.def->gather(here, box);
  };
  const auto box_of = [&](std::size_t k, const CallBoxes& boxes, ValueId value) {
    const Op& op = site(k).op;
    for (std::size_t j = 0; j < op.inputs.size(); ++j)
      if (op.inputs[j] == value) return boxes.in[j];
    return boxes.out[static_cast<std::size_t>(std::find(op.outputs.begin(), op.outputs.end(), value) - op.outputs.begin())];
  };
  // The dimensions of `of` that cuts of `from` in the dimensions `dims` make smaller. Where none is seen (a window that covers
  // all), values of one rank are taken to have the same dimensions.
  const auto through = [&](std::size_t k, ValueId from, const std::vector<int>& dims, ValueId of) {
    const Dims& shape = graph_.value(from).type.shape;
    const Dims& other = graph_.value(of).type.shape;
    const Box uncut = box_of(k, call_on(k, Box::whole(shape)), of);
    std::vector<int> found(dims.size(), kNoDim);
    const auto free = [&](int dim) { return std::find(found.begin(), found.end(), dim) == found.end(); };
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == kNoDim) continue;
      Box cut;
      const std::int64_t end = shape[dims[d]];
      for (const std::int64_t row : {std::int64_t{0}, end / 2, end - 1}) {  // one that is no padding
        Box part = Box::whole(shape);
        part.set(dims[d], {row, row + 1});
        cut = box_of(k, call_on(k, part), of);
        if (!cut.empty()) break;
      }
      if (cut.empty()) continue;
      for (int dim = 0; dim < other.rank() && found[d] == kNoDim; ++dim)
        if (cut.extent(dim) < uncut.extent(dim) && free(dim)) found[d] = dim;
    }
    if (other.rank() == shape.rank() && !graph_.value(of).persistent())
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (found[d] == kNoDim && dims[d] != kNoDim && free(dims[d])) found[d] = dims[d];
    return found;
  };
  // Whether a value's dimensions tell those of an op's pivot: best one of the same rank; a key, say, has none.
  bool any_rank = false;
  const auto tells = [&](ValueId value, ValueId pivot) {
    if (!known(value) || graph_.value(value).persistent()) return false;
    if (graph_.value(value).type.shape.rank() == graph_.value(pivot).type.shape.rank()) return true;
    const std::vector<int>& dims = dims_[slot(value)];
    return any_rank && std::any_of(dims.begin(), dims.end(), [](int dim) { return dim != kNoDim; });
  };
  const auto visit = [&](std::size_t k) {
    const OpSite here = site(k);
    const Op& op = here.op;
    const ValueId pivot =
        modes_[k] == OpMode::push ? op.inputs[static_cast<std::size_t>(op.def->push_driver(here))] : op.outputs[0];
    bool news = false;
    if (!known(pivot)) {
      for (const std::vector<ValueId>* list : {&op.outputs, &op.inputs})
        for (ValueId value : *list) {
          if (known(pivot) || !tells(value, pivot)) continue;
          const std::vector<int> seen = through(k, pivot, same_dims(pivot), value);
          std::vector<int> dims;
          for (const int dim : dims_[slot(value)]) {
            const auto where = dim == kNoDim ? seen.end() : std::find(seen.begin(), seen.end(), dim);
            dims.push_back(where == seen.end() ? kNoDim : static_cast<int>(where - seen.begin()));
          }
          make_known(pivot, std::move(dims));
          news = true;
        }
      if (!known(pivot)) return false;
    }
    for (const std::vector<ValueId>* list : {&op.outputs, &op.inputs})
      for (ValueId value : *list)
        if (!known(value)) {
          make_known(value, through(k, pivot, dims_[slot(pivot)], value));
          news = true;
        }
    return news;
  };
  for (bool news = true; news;) {
    news = false;
    for (const bool loosely : {false, true}) {
      any_rank = loosely && !news;
      for (std::size_t k = pass_.ops.size(); k-- > 0 && any_rank == loosely;) news = visit(k) || news;
      for (std::size_t k = 0; k < pass_.ops.size() && any_rank == loosely; ++k) news = visit(k) || news;
    }
    if (news) continue;
    for (ValueId value : values_) {
      // Another part of the graph, so that any cut of it is right: dimensions of the same extents, in order, or those of the same
      // places.
      if (known(value) || graph_.value(value).persistent() || graph_.value(value).role == Role::statistic) continue;
      const Dims& shape = graph_.value(value).type.shape;
      std::vector<int> dims(static_cast<std::size_t>(rank), kNoDim);
      if (shape.rank() == rank) {
        dims = same;
      } else {
        int next = 0;
        for (int dim = 0; dim < rank; ++dim)
          for (int own = next; own < shape.rank() && dims[static_cast<std::size_t>(dim)] == kNoDim; ++own)
            if (shape[own] == graph_.value(pass_.driver).type.shape[dim]) {
              dims[static_cast<std::size_t>(dim)] = own;
              next = own + 1;
            }
      }
      make_known(value, std::move(dims));
      news = true;
      break;
    }
  }
  for (ValueId value : values_)
    if (!known(value)) make_known(value, std::vector<int>(static_cast<std::size_t>(rank), kNoDim));
}

std::vector<int> PassRoles::same_dims(ValueId value) const {
  std::vector<int> dims;
  for (int dim = 0; dim < graph_.value(value).type.shape.rank(); ++dim) dims.push_back(dim);
  return dims;
}

}  // namespace outsize
