#include "ops/cuda/move.h"

// Both kinds move boxes between a whole piece and its parts: concat from parts to whole, its gradient from whole to parts.
namespace outsize::OUTSIZE_PLACE {
namespace {

// Where each part begins in the whole value, as a shift.
std::vector<Dims> starts_of(const OpSite& site, const std::vector<ValueId>& parts) {
  const int axis = static_cast<int>(site.integer("axis"));
  std::vector<Dims> starts;
  std::int64_t start = 0;
  for (const ValueId id : parts) {
    const Dims& shape = site.graph.value(id).type.shape;
    starts.push_back(Dims::filled(shape.rank(), 0));
    starts.back()[axis] = start;
    start += shape[axis];
  }
  return starts;
}

std::unique_ptr<Kernel> make_concat(const Call& call, const StorageRule& storage) {
  expect_words(call, storage);
  const Format format = call.site.in(0).format;
  const int axis = static_cast<int>(call.site.integer("axis"));
  return make_kernel("move", 0, [=, starts = starts_of(call.site, call.site.op.inputs)](const KernelRun& run) {
    if (run.out[0] == nullptr) return;
    const PieceOf<Word> whole = output_piece(run, 0, format, Dims::filled(starts[0].rank(), 0));
    const auto part = [&](std::size_t i) { return input_piece(run, static_cast<int>(i), format, starts[i]); };
    std::int64_t covered = 0;
    for (std::size_t i = 0; i < starts.size(); ++i)
      if (run.in[i] != nullptr) covered += intersect(part(i).box[axis], whole.box[axis]).size();
    if (covered != whole.box.extent(axis))
      fill_zero(whole.data, whole.box.elements() * static_cast<std::int64_t>(sizeof(Word)), run.queue);
    for (std::size_t i = 0; i < starts.size(); ++i)
      if (run.in[i] != nullptr) move_box(storage, part(i), whole, run.queue);
  });
}

std::unique_ptr<Kernel> make_split(const Call& call, const StorageRule& storage) {
  expect_words(call, storage);
  const Format format = call.site.in(0).format;
  return make_kernel("move", 0, [=, starts = starts_of(call.site, call.site.op.outputs)](const KernelRun& run) {
    const PieceOf<const Word> whole = input_piece(run, 0, format, Dims::filled(starts[0].rank(), 0));
    for (std::size_t i = 0; i < starts.size(); ++i)
      if (run.out[i] != nullptr) pad_box(storage, whole, output_piece(run, static_cast<int>(i), format, starts[i]), 0, run.queue);
  });
}

}  // namespace

void cuda_concat(KernelTable& table) {
  table.add("concat", make_concat);
  table.add("split", make_split);
}

}  // namespace outsize::OUTSIZE_PLACE
