#include "ops/cuda/each.h"
#include "ops/cuda/map.h"
#include "ops/cuda/reduce.h"
#include "ops/soft_dice/fraction.h"

namespace outsize::OUTSIZE_PLACE {
namespace {

// p as sheets behind each other: of a map one for each sample, of a plain value one for each sample and channel. Either way the
// column of channel c of sheet n is n · channels + c.
struct Sheets {
  std::int64_t count;
  Sheet sheet;
  std::int64_t of_sample = 1;  // sheets of a sample, which have one channel each where there are more

  Sheets(const ValueType& type, const Box& box) : count(box.extent(0)) {
    if (type.format == Format::plain) {
      of_sample = box.extent(1);
      count *= of_sample;
    }
    if (count == 0) return;
    const std::int64_t channels = type.format == Format::plain ? 1 : box.extent(1);
    sheet = {box.elements() / (count * channels), channels};
  }
  std::int64_t columns() const { return count * sheet.channels; }
};

// Labels, one for each position of a sample, read as the target: 1 where the label is the channel.
struct Labels {
  const std::int32_t* labels;
  std::int64_t positions;  // of a sheet
  std::int64_t of_sample;

  struct OfChannel {
    const std::int32_t* labels;
    std::int64_t shift;  // from positions of p to labels
    int channel;
    OUTSIZE_BOTH float operator()(Place place) const { return labels[place.position + shift] == channel ? 1.0f : 0.0f; }
  };
  OUTSIZE_BOTH OfChannel of(int channel, std::int64_t sheet) const {
    return {labels, (sheet / of_sample - sheet) * positions, static_cast<int>(sheet % of_sample) + channel};
  }
};

struct SumsPartial {
  double product = 0, p = 0, target = 0;
  OUTSIZE_BOTH void merge(const SumsPartial& other) {
    product += other.product;
    p += other.p;
    target += other.target;
  }
};

struct SumsRun {
  float product, p, target;
  OUTSIZE_BOTH void start(float) { product = p = target = 0; }
  OUTSIZE_BOTH void add_pair(float x, float t) {
    product += x * t;
    p += x;
    target += t;
  }
  OUTSIZE_BOTH void into(SumsPartial& partial, int) const { partial.merge({product, p, target}); }
};

// Of p and a target like it.
struct Sums : WithoutFactors {
  static constexpr int kInputs = 2;
  using Partial = SumsPartial;
  struct Run : SumsRun {
    OUTSIZE_BOTH void add(const float* x, NoFactors) { add_pair(x[0], x[1]); }
  };
};

// Of p and labels.
struct LabelSums {
  static constexpr int kInputs = 1;
  using Factors = Labels::OfChannel;
  using Partial = SumsPartial;
  struct Run : SumsRun {
    OUTSIZE_BOTH void add(const float* x, const Factors& factors, Place place) { add_pair(x[0], factors(place)); }
  };

  Labels labels;
  OUTSIZE_BOTH Factors factors(int channel, std::int64_t sheet) const { return labels.of(channel, sheet); }
};

struct SumsEnd {
  float* sums;
  std::int64_t columns;
  OUTSIZE_BOTH void finish(int column, const SumsPartial& found) const {
    sums[column] = static_cast<float>(found.product);
    sums[columns + column] = static_cast<float>(found.p);
    sums[2 * columns + column] = static_cast<float>(found.target);
  }
};

// dp = dsums[0] · t + dsums[1].
struct SumsGrad {
  static constexpr int kInputs = 1;
  struct Factors {
    float by_product, by_p;
  };
  const float* dsums;
  std::int64_t columns;
  std::int64_t channels;  // of a sheet

  OUTSIZE_BOTH Factors factors(int channel, std::int64_t sheet) const {
    const std::int64_t column = sheet * channels + channel;
    return {dsums[column], dsums[columns + column]};
  }
  OUTSIZE_BOTH float operator()(const float* target, const Factors& f) const { return f.by_product * target[0] + f.by_p; }
};

struct LabelSumsGrad {
  static constexpr int kInputs = 0;
  struct Factors {
    SumsGrad::Factors by;
    Labels::OfChannel target;
  };
  SumsGrad grad;
  Labels labels;

  OUTSIZE_BOTH Factors factors(int channel, std::int64_t sheet) const {
    return {grad.factors(channel, sheet), labels.of(channel, sheet)};
  }
  OUTSIZE_BOTH float operator()(const float*, const Factors& f, Place place) const {
    return f.by.by_product * f.target(place) + f.by.by_p;
  }
};

// The loss from columns of sums.
struct Loss {
  static constexpr int kInputs = 3;
  using Partial = SumPartial;
  struct Factors {
    double smooth;
  };
  struct Run {
    double value;
    OUTSIZE_BOTH void start(float) { value = 0; }
    OUTSIZE_BOTH void add(const float* x, const Factors& factors) {
      value += 1 - DiceFraction(x[0], x[1], x[2], factors.smooth).value;
    }
    OUTSIZE_BOTH void into(SumPartial& partial, int) const { partial.merge({value}); }
  };

  double smooth;
  explicit Loss(double added) : smooth(added) {}
  OUTSIZE_BOTH Factors factors(int) const { return {smooth}; }
};

struct LossGrad {
  const float* sums;
  const float* dloss;
  float* gradient;
  std::int64_t columns, all;  // of the box and of the value
  double smooth;
  OUTSIZE_BOTH void operator()(std::int64_t column) const {
    const double scale = -static_cast<double>(*dloss) / static_cast<double>(all);
    dice_column_gradient(sums, columns, column, smooth, scale, gradient);
  }
};

std::unique_ptr<Kernel> make_sums(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  if (has_empty_input(call)) return make_zeros(call, storage);
  const Sheets sheets(call.site.in(0), call.boxes.in[0]);
  const ReduceShape shape{sheets.count, sheets.sheet, 1};
  if (call.site.in(1).dtype == DType::i32)
    return make_kernel("reduce", reduce_workspace<LabelSums>(shape), [=](const KernelRun& run) {
      const Labels labels{in<std::int32_t>(run, 1), sheets.sheet.positions, sheets.of_sample};
      run_reduce(LabelSums{labels}, SumsEnd{out<float>(run, 0), sheets.columns()}, {in<float>(run, 0)}, shape, run.workspace,
                 run.queue);
    });
  return make_kernel("reduce", reduce_workspace<Sums>(shape), [=](const KernelRun& run) {
    run_reduce(Sums(), SumsEnd{out<float>(run, 0), sheets.columns()}, {in<float>(run, 0), in<float>(run, 1)}, shape, run.workspace,
               run.queue);
  });
}

std::unique_ptr<Kernel> make_sums_grad(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const Sheets sheets(call.site.out(0), call.boxes.out[0]);
  const bool one_hot = call.site.in(1).dtype == DType::i32;
  return make_kernel("map", 0, [=](const KernelRun& run) {
    const SumsGrad grad{in<float>(run, 0), sheets.columns(), sheets.sheet.channels};
    if (one_hot)
      run_map(LabelSumsGrad{grad, {in<std::int32_t>(run, 1), sheets.sheet.positions, sheets.of_sample}}, {}, out<float>(run, 0),
              sheets.count, sheets.sheet, run.queue);
    else
      run_map(grad, {in<float>(run, 1)}, out<float>(run, 0), sheets.count, sheets.sheet, run.queue);
  });
}

std::unique_ptr<Kernel> make_loss(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const std::int64_t columns = call.site.in(0).shape[1];
  const ReduceShape shape = all_of(columns);
  const Loss loss(call.site.number("smooth"));
  return make_kernel("reduce", reduce_workspace<Loss>(shape), [=](const KernelRun& run) {
    const float* const sums = in<float>(run, 0);
    run_reduce(loss, ScaledSum{out<float>(run, 0), 1 / static_cast<double>(columns)}, {sums, sums + columns, sums + 2 * columns},
               shape, run.workspace, run.queue);
  });
}

std::unique_ptr<Kernel> make_loss_grad(const Call& call, const StorageRule& storage) {
  expect_card_call(call, storage);
  const std::int64_t columns = call.boxes.in[0].extent(1), all = call.site.in(0).shape[1];
  const double smooth = call.site.number("smooth");
  return make_kernel("each", 0, [=](const KernelRun& run) {
    run_each(LossGrad{in<float>(run, 0), in<float>(run, 1), out<float>(run, 0), columns, all, smooth}, columns, run.queue);
  });
}

}  // namespace

void cuda_soft_dice(KernelTable& table) {
  table.add("dice_sums", make_sums);
  table.add("dice_sums_grad", make_sums_grad);
  table.add("dice_loss", make_loss);
  table.add("dice_loss_grad", make_loss_grad);
}

}  // namespace outsize::OUTSIZE_PLACE
