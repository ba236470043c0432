#include "ops/cuda/move.h"

// A reshape keeps the logical row-major order, in which a channels-last map is three loops. Where each step of one side is a whole
// number of steps of the other, it is a move; else two, by way of a plain value.
namespace outsize::OUTSIZE_PLACE {
namespace {

// The loops of one side in row-major order, the outermost first.
struct Side {
  struct Loop {
    std::int64_t extent = 1;
    std::int64_t step = 1;  // words
  };
  std::array<Loop, 3> loops;
  int count = 0;

  Side(Format format, const Box& box) {
    const std::int64_t elements = box.elements();
    if (!is_map(format)) {
      loops[0] = {elements, 1};
      count = 1;
      return;
    }
    const std::int64_t samples = box.extent(0), channels = box.extent(1), positions = elements / (samples * channels);
    loops = {Loop{samples, channels * positions}, Loop{channels, 1}, Loop{positions, channels}};
    count = 3;
  }
};

// The move from one side to the other, or false where none is.
bool find_move(Side from, Side to, Move& move) {
  for (int i = from.count - 1, j = to.count - 1; i >= 0 && j >= 0;) {
    Side::Loop& a = from.loops[static_cast<std::size_t>(i)];
    Side::Loop& b = to.loops[static_cast<std::size_t>(j)];
    const std::int64_t extent = std::min(a.extent, b.extent);
    if (a.extent % extent != 0 || b.extent % extent != 0) return false;
    if (extent > 1) move.add({extent, a.step, b.step});
    a = {a.extent / extent, a.step * extent};
    b = {b.extent / extent, b.step * extent};
    if (a.extent == 1) --i;
    if (b.extent == 1) --j;
  }
  return true;
}

std::unique_ptr<Kernel> make_reshape(const Call& call, const StorageRule& storage) {
  expect_words(call, storage);
  const Box& from_box = call.boxes.in[0];
  const Box& to_box = call.boxes.out[0];
  OUTSIZE_CHECK(from_box.elements() == to_box.elements());
  if (to_box.empty()) return make_nothing();
  const Format from_format = call.site.in(0).format, to_format = call.site.out(0).format;
  const Side from(from_format, from_box), to(to_format, to_box);
  if (Move move; find_move(from, to, move))
    return make_kernel("move", 0, [=](const KernelRun& run) {
      const Word* const x = in<Word>(run, 0);
      Word* const y = out<Word>(run, 0);
      if (x != y) run_move(x, y, move, 0, run.queue);
    });
  const Side plain(Format::plain, from_box);
  Move there, back;
  OUTSIZE_CHECK(find_move(from, plain, there) && find_move(plain, to, back));
  return make_kernel("move+move", from_box.elements() * static_cast<std::int64_t>(sizeof(Word)), [=](const KernelRun& run) {
    Word* const between = reinterpret_cast<Word*>(run.workspace);
    run_move(in<Word>(run, 0), between, there, 0, run.queue);
    run_move(between, out<Word>(run, 0), back, 0, run.queue);
  });
}

}  // namespace

void cuda_reshape(KernelTable& table) { table.add("reshape", make_reshape); }

}  // namespace outsize::OUTSIZE_PLACE
