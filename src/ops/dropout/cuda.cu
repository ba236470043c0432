#include "ops/cuda/loops.h"
#include "ops/cuda/philox.h"
#include "ops/dropout/dropout.h"

// Four words are drawn at once, for elements whose places in the whole value follow each other. In a plain value these follow each
// other in memory too. In a map they are four positions of one channel: a thread takes them of one channel, or of V side by side.
namespace outsize::OUTSIZE_PLACE {
namespace {

// Positions of a launch. Few on the host, so that the cases of the tests have several launches.
#if defined(__CUDACC__)
constexpr std::int64_t kMost = kMostPositions;
#else
constexpr std::int64_t kMost = 150;
#endif

enum class Unit : std::uint8_t {
  along,    // elements that follow each other in memory as in the value
  channel,  // elements of a map's channels
  row,      // all of a row: a sample
};

// Rows of `length` places that follow each other. Row (i0, i1, …) begins at place Σ i · step and at that element of the piece.
struct Rows {
  Loops<2> loops;  // operand 0: the place, operand 1: the element
  std::int64_t length = 1;
  std::int64_t channels = 1;  // elements of the piece from one place to the next
  std::int64_t plane = 0;     // places from one channel to the next
};

template <Unit kUnit, int V>
struct DropoutProgram {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 3;
  static constexpr int kPlaces = 4;  // that a thread has the words of
  static constexpr bool kChannels = kUnit == Unit::channel;
  static constexpr int kUnroll = kChannels ? 1 : 2;
  static constexpr int kLoads = kChannels ? kPlaces : kPlaces / V;

  const float* x;
  float* y;
  const std::uint32_t* key;
  std::uint32_t stream, threshold;
  float scale;
  Loops<2>::Walk rows;
  Divide groups;           // of four places in a row
  Divide channel_vectors;  // in a place
  std::int64_t length, channels, plane;
  std::uint64_t first_place;
  bool whole_blocks;  // groups begin at places that are multiples of four
  std::uint32_t count = 0;

  Grid grid() const { return {ceil_divide(count, kThreads * kUnroll), 1, 0}; }

  template <class Block>
  OUTSIZE_BOTH void operator()(Block& block) const {
    block.last([&](int thread) {
      OUTSIZE_UNROLL
      for (int u = 0; u < kUnroll; ++u) {
        const std::uint32_t p = (static_cast<std::uint32_t>(block.x()) * kUnroll + u) * kThreads + thread;
        if (p < count) drop(p);
      }
    });
  }

 private:
  OUTSIZE_BOTH void drop(std::uint32_t p) const {
    const std::uint32_t above = channel_vectors.quotient(p), row = groups.quotient(above);
    const std::int64_t channel = static_cast<std::int64_t>(p - above * channel_vectors.by()) * V;
    std::int64_t starts[2] = {};
    rows.add_offsets(row, starts);
    std::uint64_t place = first_place + static_cast<std::uint64_t>(starts[0]);
    // Places of the row from `from` on; those before the row and past its end are left out.
    std::int64_t from = static_cast<std::int64_t>(above - row * groups.by()) * kPlaces;
    if (kChannels && whole_blocks) from -= static_cast<std::int64_t>(place % 4);
    const int low = from < 0 ? static_cast<int>(-from) : 0;
    const int high = length - from < kPlaces ? static_cast<int>(length - from) : kPlaces;
    const std::int64_t at = starts[1] + from * channels + (kChannels ? channel : 0);

    constexpr int kStep = kChannels ? 1 : V;  // places of a load
    Vector<float, V> values[kLoads] = {};
    OUTSIZE_UNROLL
    for (int i = 0; i < kLoads; ++i)
      if (i * kStep >= low && i * kStep < high) values[i] = load<V>(x + at + i * kStep * channels);
    if constexpr (kChannels) {
      OUTSIZE_UNROLL
      for (int j = 0; j < V; ++j) {
        const std::uint64_t first = place + static_cast<std::uint64_t>(from + (channel + j) * plane);
        const PhiloxWords words = four_words(first, high);
        OUTSIZE_UNROLL
        for (int i = 0; i < kPlaces; ++i) values[i].of[j] = kept(words.of[i], values[i].of[j]);
      }
    } else {
      const PhiloxWords words = kUnit == Unit::row ? one_word(place) : four_words(place + static_cast<std::uint64_t>(from), high);
      OUTSIZE_UNROLL
      for (int i = 0; i < kPlaces; ++i) values[i / V].of[i % V] = kept(words.of[i], values[i / V].of[i % V]);
    }
    OUTSIZE_UNROLL
    for (int i = 0; i < kLoads; ++i)
      if (i * kStep >= low && i * kStep < high) store(y + at + i * kStep * channels, values[i]);
  }

  // A NaN that is dropped is gone.
  OUTSIZE_BOTH float kept(std::uint32_t word, float value) const { return word >= threshold ? value * scale : 0.0f; }

  // The words of four places from `place` on; those from `count` on are not needed.
  OUTSIZE_BOTH PhiloxWords four_words(std::uint64_t place, int needed) const {
    const PhiloxWords own = draw(place / 4);
    const int skip = static_cast<int>(place % 4);
    if (skip == 0) return own;
    const PhiloxWords next = skip + needed > 4 ? draw(place / 4 + 1) : own;
    // Shifted by one and by two, so that every word stays in a register.
    std::uint32_t w[8] = {own.of[0], own.of[1], own.of[2], own.of[3], next.of[0], next.of[1], next.of[2], next.of[3]};
    OUTSIZE_UNROLL
    for (int i = 0; i < 6; ++i)
      if (skip & 1) w[i] = w[i + 1];
    OUTSIZE_UNROLL
    for (int i = 0; i < 4; ++i)
      if (skip & 2) w[i] = w[i + 2];
    return {{w[0], w[1], w[2], w[3]}};
  }
  // The word of one place, four times.
  OUTSIZE_BOTH PhiloxWords one_word(std::uint64_t place) const {
    const std::uint32_t word = four_words(place, 1).of[0];
    return {{word, word, word, word}};
  }
  OUTSIZE_BOTH PhiloxWords draw(std::uint64_t index) const { return philox_words(index, stream, key[2], key[0], key[1]); }
};

class Dropout final : public Kernel {
 public:
  Dropout(const Call& call, const StorageRule& storage)
      : shape_(call.site.in(0).shape),
        stream_(static_cast<std::uint32_t>(call.site.integer("stream"))),
        threshold_(static_cast<std::uint32_t>(dropout_threshold(call.site.number("p")))),
        scale_(static_cast<float>(1 / (1 - call.site.number("p")))) {
    const Box& box = call.boxes.out[0];
    const int rank = shape_.rank();
    if (call.site.word("unit") == "sample") {
      unit_ = Unit::row;
      place_steps_ = Dims::filled(rank, 0);
      if (rank > 0) place_steps_[0] = 1;
      const std::int64_t samples = rank > 0 ? box.extent(0) : 1;
      rows_.length = box.elements() / samples;
      rows_.loops.add(samples, {1, rows_.length});
      return;
    }
    place_steps_ = stored_steps({}, call.site.in(0), Box::whole(shape_));
    const Dims steps = stored_steps(storage, call.site.in(0), box);
    const bool last = stored_channels_last(storage, call.site.in(0).format, rank) && box.extent(1) > 1;
    unit_ = last ? Unit::channel : Unit::along;
    if (last) rows_.channels = box.extent(1);
    if (last) rows_.plane = place_steps_[1];
    for (int dim = 0; dim < rank; ++dim)
      if (!last || dim != 1) rows_.loops.add(box.extent(dim), {place_steps_[dim], steps[dim]});
    const int inner = rows_.loops.depth() - 1;
    if (inner >= 0 && rows_.loops.step(0, inner) == 1 && rows_.loops.step(1, inner) == rows_.channels) {
      rows_.length = rows_.loops.extent(inner);
      rows_.loops = rows_.loops.around_innermost();
    }
  }
  std::string name() const override { return "rows"; }

  void run(const KernelRun& run) const override {
    if (run.out[0] == nullptr) return;
    std::int64_t place = 0;
    for (int dim = 0; dim < shape_.rank(); ++dim) place += run.out_boxes[0].lo[dim] * place_steps_[dim];
    const bool vectors = aligned<4>(in<float>(run, 0), out<float>(run, 0)) &&
                         (unit_ == Unit::channel ? rows_.channels % 4 == 0 : rows_.length % 4 == 0);
    const auto with = [&]<Unit kUnit>() { vectors ? start<kUnit, 4>(run, place) : start<kUnit, 1>(run, place); };
    if (unit_ == Unit::along) with.template operator()<Unit::along>();
    if (unit_ == Unit::channel) with.template operator()<Unit::channel>();
    if (unit_ == Unit::row) with.template operator()<Unit::row>();
  }

 private:
  template <Unit kUnit, int V>
  void start(const KernelRun& run, std::int64_t place) const {
    // Where channels begin at multiples of four words, groups may too; a row then has one more of them.
    const bool whole_blocks = kUnit == Unit::channel && rows_.plane % 4 == 0;
    const std::int64_t vectors = kUnit == Unit::channel ? rows_.channels / V : 1;
    const std::int64_t longest = std::max<std::int64_t>(kMost / vectors - 1, 1) * 4;
    const std::int64_t groups = ceil_divide(rows_.length + (whole_blocks ? 3 : 0), 4);
    rows_.loops.for_each_part(
        std::max<std::int64_t>(1, kMost / (groups * vectors)), [&](const Loops<2>& loops, const std::array<std::int64_t, 2>& from) {
          // One row that is too long for a launch goes by parts.
          for (std::int64_t begin = 0; begin < rows_.length; begin += longest) {
            const std::int64_t length = loops.positions() > 1 ? rows_.length : std::min(longest, rows_.length - begin);
            const std::int64_t element = from[1] + begin * rows_.channels;
            const std::int64_t own_groups = ceil_divide(length + (whole_blocks ? 3 : 0), 4);
            DropoutProgram<kUnit, V> program{in<float>(run, 0) + element,
                                             out<float>(run, 0) + element,
                                             in<std::uint32_t>(run, 1),
                                             stream_,
                                             threshold_,
                                             scale_,
                                             loops.walk(),
                                             Divide(own_groups),
                                             Divide(vectors),
                                             length,
                                             rows_.channels,
                                             rows_.plane,
                                             static_cast<std::uint64_t>(place + from[0] + (kUnit == Unit::row ? 0 : begin)),
                                             whole_blocks};
            program.count = static_cast<std::uint32_t>(loops.positions() * own_groups * vectors);
            launch(program, program.grid(), run.queue);
            if (loops.positions() > 1) return;
          }
        });
  }

  Dims shape_;
  Dims place_steps_;  // places along each dimension of the whole value
  Rows rows_;
  Unit unit_ = Unit::along;
  std::uint32_t stream_;
  std::uint32_t threshold_;
  float scale_;
};

std::unique_ptr<Kernel> make_dropout(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (call.boxes.out[0].empty()) return make_nothing();
  return std::make_unique<Dropout>(call, storage);
}

}  // namespace

void cuda_dropout(KernelTable& table) { table.add("dropout", make_dropout); }

}  // namespace outsize::OUTSIZE_PLACE
