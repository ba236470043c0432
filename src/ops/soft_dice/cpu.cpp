#include "ops/cpu_support.h"
#include "ops/registry.h"
#include "ops/soft_dice/fraction.h"

namespace outsize {

namespace {

// A target as an element beside each of p.
struct Elements {
  const float* data;
  OUTSIZE_INLINE float operator()(std::int64_t position, int lane, int block) const { return data[position * block + lane]; }
};

// A target as labels of positions: 1 where the label is the lane's channel.
struct OneHot {
  const std::int32_t* labels;
  std::int32_t first;  // the channel of lane 0
  OUTSIZE_INLINE float operator()(std::int64_t position, int lane, int) const {
    return labels[position] == first + lane ? 1.0F : 0.0F;
  }
};

// Runs are short so that f32 sums lose nothing worth naming; their sums are taken in f64.
constexpr std::int64_t kRun = 256;

// sums[0..2][lane] = Σ p·t, Σ p, Σ t over positions of one block of channels; a plain row is a block of one.
template <int block, class Target>
OUTSIZE_CLONES void add_up(const float* p, Target target, std::int64_t count, double* sums) {
  std::fill_n(sums, 3 * block, 0.0);
  for (std::int64_t from = 0; from < count; from += kRun) {
    const std::int64_t to = std::min(count, from + kRun);
    if constexpr (block == 1) {
      float products = 0, of_p = 0, of_t = 0;
#pragma omp simd reduction(+ : products, of_p, of_t)
      for (std::int64_t q = from; q < to; ++q) {
        const float t = target(q, 0, 1);
        products += p[q] * t;
        of_p += p[q];
        of_t += t;
      }
      sums[0] += static_cast<double>(products);
      sums[1] += static_cast<double>(of_p);
      sums[2] += static_cast<double>(of_t);
    } else {
      float products[block] = {}, of_p[block] = {}, of_t[block] = {};
      for (std::int64_t q = from; q < to; ++q)
#pragma omp simd
        for (int lane = 0; lane < block; ++lane) {
          const float t = target(q, lane, block);
          products[lane] += p[q * block + lane] * t;
          of_p[lane] += p[q * block + lane];
          of_t[lane] += t;
        }
      for (int lane = 0; lane < block; ++lane) {
        sums[lane] += static_cast<double>(products[lane]);
        sums[block + lane] += static_cast<double>(of_p[lane]);
        sums[2 * block + lane] += static_cast<double>(of_t[lane]);
      }
    }
  }
}

// dp = by_product[lane] · t + by_p[lane].
template <int block, class Target>
OUTSIZE_CLONES void spread(const float* by_product, const float* by_p, Target target, std::int64_t count, float* dp) {
  if constexpr (block == 1) {
    const float a = *by_product, b = *by_p;
#pragma omp simd
    for (std::int64_t q = 0; q < count; ++q) dp[q] = a * target(q, 0, 1) + b;
  } else {
    float a[block], b[block];
    for (int lane = 0; lane < block; ++lane) {
      a[lane] = by_product[lane];
      b[lane] = by_p[lane];
    }
    for (std::int64_t q = 0; q < count; ++q)
#pragma omp simd
      for (int lane = 0; lane < block; ++lane) dp[q * block + lane] = a[lane] * target(q, lane, block) + b[lane];
  }
}

// p, plain or map, as planes of positions × block channels, in chunks that threads share.
struct Planes {
  std::int64_t samples, channels, blocks, block, positions;
  bool one_hot;

  Planes(const Box& p, const ValueType& type, const StorageRule& storage, bool labels)
      : samples(p.extent(0)),
        channels(p.extent(1)),
        block(type.format == Format::map ? storage.channel_block : 1),
        positions(p.elements() / (samples * channels)),
        one_hot(labels) {
    blocks = (channels + block - 1) / block;
  }
  std::int64_t chunk() const { return kChunk / block; }  // positions
  std::int64_t chunks_of_plane() const { return chunks_of(positions, chunk()); }
  std::int64_t chunks() const { return samples * blocks * chunks_of_plane(); }
  std::int64_t bytes() const { return samples * blocks * positions * block * 8; }
};

// One chunk: which plane, and where in it.
struct Place {
  std::int64_t sample, block, from, count;
  std::int64_t element;  // of p
  std::int64_t label;

  Place(const Planes& planes, std::int64_t index) {
    const std::int64_t plane = index / planes.chunks_of_plane();
    sample = plane / planes.blocks;
    block = plane % planes.blocks;
    from = index % planes.chunks_of_plane() * planes.chunk();
    count = std::min(planes.chunk(), planes.positions - from);
    element = (plane * planes.positions + from) * planes.block;
    label = sample * planes.positions + from;
  }
};

// function.operator()<block>(target) for the block and the kind of target of a chunk.
template <class Function>
void with_target(const Planes& planes, const Place& place, const std::byte* target, const Function& function) {
  const auto by_block = [&](auto made) {
    if (planes.block == 1)
      function.template operator()<1>(made);
    else if (planes.block == 8)
      function.template operator()<8>(made);
    else
      function.template operator()<16>(made);
  };
  if (planes.one_hot)
    by_block(
        OneHot{reinterpret_cast<const std::int32_t*>(target) + place.label, static_cast<std::int32_t>(place.block * planes.block)});
  else
    by_block(Elements{f32(target) + place.element});
}

class DiceSums : public Kernel {
 public:
  explicit DiceSums(const Planes& planes) : planes_(planes) {}
  std::string name() const override { return "loops"; }
  std::int64_t workspace_bytes() const override { return planes_.chunks() * 3 * planes_.block * size_of(DType::f64); }
  void run(const KernelRun& run) const override {
    double* const parts = f64(run.workspace);
    const std::int64_t part = 3 * planes_.block;
    parallel_for(planes_.chunks(), planes_.bytes(), [&](std::int64_t i) {
      const Place place(planes_, i);
      with_target(planes_, place, run.in[1], [&]<int block, class Target>(Target target) {
        add_up<block>(f32(run.in[0]) + place.element, target, place.count, parts + i * part);
      });
    });
    float* const sums = f32(run.out[0]);
    const std::int64_t columns = planes_.samples * planes_.channels;
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t channel = column % planes_.channels;
      const std::int64_t plane = column / planes_.channels * planes_.blocks + channel / planes_.block;
      for (std::int64_t row = 0; row < 3; ++row) {
        double total = 0;
        for (std::int64_t i = 0; i < planes_.chunks_of_plane(); ++i)
          total += parts[(plane * planes_.chunks_of_plane() + i) * part + row * planes_.block + channel % planes_.block];
        sums[row * columns + column] = static_cast<float>(total);
      }
    }
  }

 private:
  Planes planes_;
};

class DiceSumsGrad : public Kernel {
 public:
  explicit DiceSumsGrad(const Planes& planes) : planes_(planes) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const float* const dsums = f32(run.in[0]);
    const std::int64_t columns = planes_.samples * planes_.channels;
    parallel_for(planes_.chunks(), planes_.bytes(), [&](std::int64_t i) {
      const Place place(planes_, i);
      const std::int64_t first = place.block * planes_.block;
      const std::int64_t lanes = std::min(planes_.block, planes_.channels - first);
      constexpr std::int64_t kMostLanes = 16;
      float by_product[kMostLanes] = {}, by_p[kMostLanes] = {};  // zeros in the channels that pad a block
      std::copy_n(dsums + place.sample * planes_.channels + first, lanes, by_product);
      std::copy_n(dsums + columns + place.sample * planes_.channels + first, lanes, by_p);
      with_target(planes_, place, run.in[1], [&]<int block, class Target>(Target target) {
        spread<block>(by_product, by_p, target, place.count, f32(run.out[0]) + place.element);
      });
    });
  }

 private:
  Planes planes_;
};

class DiceLoss : public Kernel {
 public:
  DiceLoss(std::int64_t columns, double smooth) : columns_(columns), smooth_(smooth) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    *f32(run.out[0]) = static_cast<float>(dice_loss_of(f32(run.in[0]), columns_, smooth_));
  }

 private:
  std::int64_t columns_;
  double smooth_;
};

class DiceLossGrad : public Kernel {
 public:
  DiceLossGrad(std::int64_t columns, std::int64_t all, double smooth) : columns_(columns), all_(all), smooth_(smooth) {}
  std::string name() const override { return "loops"; }
  void run(const KernelRun& run) const override {
    const double dloss = static_cast<double>(*f32(run.in[1]));
    dice_loss_gradient(f32(run.in[0]), columns_, all_, smooth_, dloss, f32(run.out[0]));
  }

 private:
  std::int64_t columns_;
  std::int64_t all_;
  double smooth_;
};

std::unique_ptr<Kernel> make_sums(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (call.site.in(0).format == Format::map) require_blocks(call, storage);
  const bool labels = call.site.in(1).dtype == DType::i32;
  return std::make_unique<DiceSums>(Planes(call.boxes.in[0], call.site.in(0), storage, labels));
}

std::unique_ptr<Kernel> make_sums_grad(const Call& call, const StorageRule& storage) {
  require_f32(call);
  if (call.site.out(0).format == Format::map) require_blocks(call, storage);
  const bool labels = call.site.in(1).dtype == DType::i32;
  return std::make_unique<DiceSumsGrad>(Planes(call.boxes.out[0], call.site.out(0), storage, labels));
}

std::unique_ptr<Kernel> make_loss(const Call& call, const StorageRule&) {
  require_f32(call);
  return std::make_unique<DiceLoss>(call.site.in(0).shape[1], call.site.number("smooth"));
}

std::unique_ptr<Kernel> make_loss_grad(const Call& call, const StorageRule&) {
  require_f32(call);
  return std::make_unique<DiceLossGrad>(call.boxes.in[0].extent(1), call.site.in(0).shape[1], call.site.number("smooth"));
}

}  // namespace

void cpu_soft_dice(KernelTable& table) {
  table.add("dice_sums", make_sums);
  table.add("dice_sums_grad", make_sums_grad);
  table.add("dice_loss", make_loss);
  table.add("dice_loss_grad", make_loss_grad);
}

}  // namespace outsize
