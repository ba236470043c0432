#include "run/batch_spec.h"

#include <algorithm>
#include <set>

#include "graph/opdef.h"

namespace outsize {
namespace {

struct Reader {
  OpSite site;
  ValueType integers;  // as they arrive
};

// Appends the forward ops that read labels or tokens, directly or after ops that only move them about (slice, pad, reshape). A
// value that is cut and joined again is reached on many ways and followed on one.
void find_readers(const Graph& graph, ValueId integers, std::set<ValueId>& followed, std::vector<Reader>& readers) {
  if (!followed.insert(integers).second) return;
  for (OpId id : graph.value(integers).consumers) {
    const Op& op = graph.op(id);
    if (op.phase != Phase::forward) continue;
    readers.push_back({{graph, op}, graph.value(integers).type});
    for (ValueId output : op.outputs)
      if (graph.value(output).type.dtype == DType::i32) find_readers(graph, output, followed, readers);
  }
}

std::vector<Reader> readers_of(const Graph& graph, ValueId integers) {
  std::vector<Reader> readers;
  std::set<ValueId> followed;
  find_readers(graph, integers, followed, readers);
  return readers;
}

// The extent of `type` along which the labels index, or 0 where it does not stand beside labels of that shape: the last, or that of
// the channels.
std::int64_t class_extent(const ValueType& type, const Dims& labels) {
  const int rank = type.shape.rank();
  if (!is_float(type.dtype) || rank != labels.rank() + 1) return 0;
  const auto labels_without = [&](int dim) {
    Dims rest;
    for (int i = 0; i < rank; ++i)
      if (i != dim) rest.push_back(type.shape[i]);
    return rest == labels;
  };
  if (type.format == Format::plain && labels_without(rank - 1)) return type.shape[rank - 1];
  return rank > 1 && labels_without(1) ? type.shape[1] : 0;
}

}  // namespace

BatchSpec batch_spec_of(const StepGraph& step) {
  const Graph& graph = step.graph;
  const ValueType& x_type = graph.value(step.x).type;
  const ValueType& y_type = graph.value(step.y).type;
  BatchSpec spec{x_type.dtype, x_type.shape, y_type.dtype, y_type.shape};
  if (x_type.dtype == DType::i32) {
    for (const Reader& reader : readers_of(graph, step.x))
      for (int i = 0; i < reader.site.inputs(); ++i) {
        const ValueType& table = reader.site.in(i);
        if (!is_float(table.dtype) || table.shape.rank() != 2) continue;
        spec.x_classes = spec.x_classes == 0 ? table.shape[0] : std::min(spec.x_classes, table.shape[0]);
      }
    if (spec.x_classes == 0) user_error("graph {}: x holds tokens, but no op reads it beside a table [tokens, width]", graph.name);
  }
  if (is_float(y_type.dtype)) return spec;
  for (const Reader& reader : readers_of(graph, step.y)) {
    for (int i = 0; i < reader.site.inputs() && spec.classes == 0; ++i)
      spec.classes = class_extent(reader.site.in(i), reader.integers.shape);
    if (const auto label = reader.site.op.def->uncounted_label(reader.site)) spec.ignored_label = *label;
  }
  if (spec.classes == 0)
    user_error("graph {}: no op reads '{}' beside logits [..., classes] or maps [N, classes, ...]", graph.name,
               graph.value(step.y).name);
  return spec;
}

}  // namespace outsize
