#include "backend/kernel_cache.h"

#include <cstring>
#include <map>
#include <type_traits>

namespace outsize {
namespace {

// An exact, unreadable description: every part is of fixed size or preceded by its length, so unequal calls have unequal keys.
class Key {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void add(T number) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &number, sizeof(T));
    text.append(bytes, sizeof(T));
  }
  void add(std::string_view word) {
    add(word.size());
    text.append(word);
  }
  void add(const std::string& word) { add(std::string_view(word)); }
  void add(const std::vector<std::int64_t>& numbers) {
    add(numbers.size());
    for (std::int64_t number : numbers) add(number);
  }
  void add(const Dims& dims) {
    add(dims.rank());
    for (std::int64_t extent : dims) add(extent);
  }
  void add(const Box& box) {
    add(box.lo);
    add(box.hi);
  }
  void add(const ValueType& type) {
    add(type.dtype);
    add(type.format);
    add(type.shape);
  }

  std::string text;
};

std::string key_of(const Call& call) {
  Key key;
  key.add(call.site.op.def->kind());
  key.add(call.site.op.attributes.size());
  for (const auto& [name, attribute] : call.site.op.attributes) {
    key.add(name);
    key.add(attribute.index());
    std::visit([&](const auto& content) { key.add(content); }, attribute);
  }
  key.add(call.site.inputs());
  for (int i = 0; i < call.site.inputs(); ++i) key.add(call.site.in(i));
  for (int i = 0; i < call.site.outputs(); ++i) key.add(call.site.out(i));
  for (const Box& box : call.boxes.in) key.add(box);
  for (const Box& box : call.boxes.out) key.add(box);
  key.add(call.owned);
  return key.text;
}

// A kernel with a graph of its own that holds only its op: kernels keep references to the site they were prepared for.
struct OwnedKernel {
  std::shared_ptr<const Graph> graph;
  std::unique_ptr<Kernel> kernel;
};

// A graph with nothing but a call's op, which is its op 0.
std::shared_ptr<const Graph> graph_alone(const Call& call) {
  const auto graph = std::make_shared<Graph>();
  const Op& op = call.site.op;
  std::map<ValueId, ValueId> copies;
  std::vector<ValueId> inputs;
  for (ValueId id : op.inputs) {
    const auto [copy, is_new] = copies.try_emplace(id);
    if (is_new) {
      const Value& value = call.site.graph.value(id);
      copy->second = graph->add_value(value.name, value.type, value.role, value.init);
    }
    inputs.push_back(copy->second);
  }
  std::vector<std::string> output_names;
  for (ValueId id : op.outputs) output_names.push_back(call.site.graph.value(id).name);
  graph->add_op(op.name, *op.def, inputs, op.attributes, output_names, op.phase);
  return graph;
}

}  // namespace

std::shared_ptr<const Kernel> KernelCache::get(const Call& call, std::string_view name) {
  std::string key = key_of(call);
  if (!name.empty()) key.append(1, '\0').append(name);
  if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second;

  const auto owned = std::make_shared<OwnedKernel>();
  owned->graph = graph_alone(call);
  const OpSite site{*owned->graph, owned->graph->op(OpId(0))};
  for (int i = 0; i < site.outputs(); ++i) OUTSIZE_CHECK(site.out(i) == call.site.out(i));
  const Call alone{site, call.boxes, call.owned};
  const AlternativesFactory several = name.empty() ? nullptr : alternatives_.find(site.op.def->kind());
  if (several) {
    std::string names;
    for (PreparedAlternative& one : several(alone, storage_)) {
      names += (names.empty() ? "" : ", ") + one.kernel->name();
      if (one.kernel->name() == name) owned->kernel = std::move(one.kernel);
    }
    if (!owned->kernel) refuse(call, name, names);
  } else {
    owned->kernel = table_.prepare(alone, storage_);
    if (!name.empty() && owned->kernel->name() != name) refuse(call, name, owned->kernel->name());
  }
  std::shared_ptr<const Kernel> kernel(owned, owned->kernel.get());
  kernels_.emplace(std::move(key), kernel);
  return kernel;
}

void KernelCache::refuse(const Call& call, std::string_view name, const std::string& names) const {
  user_error("op {}: backend {} has no kernel '{}' for it here; it has {}", call.site.op.name, table_.backend, name, names);
}

const std::vector<Alternative>& KernelCache::alternatives(const Call& call) {
  const auto [at, is_new] = listed_.try_emplace(key_of(call));
  if (!is_new) return at->second;
  const auto take = [&](const Kernel& kernel, double seconds) {
    at->second.push_back({kernel.name(), kernel.workspace_bytes(), seconds});
  };
  const AlternativesFactory several = alternatives_.find(call.site.op.def->kind());
  if (!several) {
    take(*get(call), -1);
  } else {
    const std::shared_ptr<const Graph> graph = graph_alone(call);
    for (const PreparedAlternative& one : several({{*graph, graph->op(OpId(0))}, call.boxes, call.owned}, storage_))
      take(*one.kernel, one.seconds);
  }
  return at->second;
}

void KernelCache::release_unused() {
  std::erase_if(kernels_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace outsize
