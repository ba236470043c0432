#include "ops/cpu_movement.h"

// Both kinds move boxes between a whole piece and its parts: concat from parts to whole, its gradient from whole to parts.
namespace outsize {

namespace {

// Where each part begins in the whole value, as a shift.
struct Parts {
  Parts(const Call& call, const StorageRule& rule, bool gradient)
      : storage(rule), format(call.site.in(0).format), axis(static_cast<int>(call.site.integer("axis"))) {
    std::int64_t start = 0;
    const int count = gradient ? call.site.outputs() : call.site.inputs();
    for (int i = 0; i < count; ++i) {
      const Dims& shape = gradient ? call.site.out(i).shape : call.site.in(i).shape;
      Dims shift = Dims::filled(shape.rank(), 0);
      shift[axis] = start;
      shifts.push_back(shift);
      start += shape[axis];
    }
  }
  // The box of part i in the whole value.
  Box in_whole(const Box& part, std::size_t i) const { return part.shifted(shifts[i]); }

  StorageRule storage;
  Format format;
  int axis;
  std::vector<Dims> shifts;
};

class Concat final : public Kernel {
 public:
  explicit Concat(Parts parts) : parts_(std::move(parts)) {}
  std::string name() const override { return "copy"; }

  void run(const KernelRun& run) const override {
    const PieceOf<Word> whole{words(run.out[0]), run.out_boxes[0], parts_.format};
    std::int64_t covered = 0;
    for (std::size_t i = 0; i < run.in.size(); ++i)
      if (run.in[i] != nullptr)
        covered += intersect(parts_.in_whole(run.in_boxes[i], i)[parts_.axis], whole.box[parts_.axis]).size();
    if (covered != whole.box.extent(parts_.axis)) fill_outside(parts_.storage, whole, Box::none(whole.box.rank()), 0);
    for (std::size_t i = 0; i < run.in.size(); ++i)
      if (run.in[i] != nullptr)
        move_box(parts_.storage, {words(run.in[i]), parts_.in_whole(run.in_boxes[i], i), parts_.format}, whole);
  }

 private:
  Parts parts_;
};

class Split final : public Kernel {
 public:
  explicit Split(Parts parts) : parts_(std::move(parts)) {}
  std::string name() const override { return "copy"; }

  void run(const KernelRun& run) const override {
    for (std::size_t i = 0; i < run.out.size(); ++i) {
      if (run.out[i] == nullptr) continue;
      const PieceOf<Word> part{words(run.out[i]), parts_.in_whole(run.out_boxes[i], i), parts_.format};
      fill_outside(parts_.storage, part, intersect(run.in_boxes[0], part.box), 0);
      move_box(parts_.storage, {words(run.in[0]), run.in_boxes[0], parts_.format}, part);
    }
  }

 private:
  Parts parts_;
};

std::unique_ptr<Kernel> make_concat(const Call& call, const StorageRule& storage) {
  require_words(call, storage);
  return std::make_unique<Concat>(Parts(call, storage, false));
}

std::unique_ptr<Kernel> make_split(const Call& call, const StorageRule& storage) {
  require_words(call, storage);
  return std::make_unique<Split>(Parts(call, storage, true));
}

}  // namespace

void cpu_concat(KernelTable& table) {
  table.add("concat", make_concat);
  table.add("split", make_split);
}

}  // namespace outsize
