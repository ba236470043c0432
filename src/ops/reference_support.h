#pragma once

#include <algorithm>
#include <type_traits>

#include "base/each_position.h"
#include "ops/kernel.h"

namespace outsize {

// Whether the box has this position.
inline bool holds(const Box& box, const Dims& position) {
  for (int dim = 0; dim < box.rank(); ++dim)
    if (position[dim] < box.lo[dim] || position[dim] >= box.hi[dim]) return false;
  return true;
}

// A piece seen as elements of type T (`const T` for inputs) at global coordinates: `view(n, c, h, w)` or `view[position]`. It works
// for plain values of any rank and for maps under any channel block or with their channels last. A view of an empty box may be made
// but holds nothing.
template <class T>
class View {
 public:
  View(T* data, const Box& box, Format format, const StorageRule& rule) : data_(data), box_(box) {
    const int rank = box.rank();
    stride_ = Dims::filled(rank, 0);
    const bool last = stored_channels_last(rule, format, rank);
    if (format == Format::map && !last) block_ = rule.channel_block;
    std::int64_t next = block_;
    const auto step = [&](int dim) {
      stride_[dim] = next;
      next *= dim == kChannel ? blocks() : box.extent(dim);
    };
    if (last) step(kChannel);
    for (int dim = rank - 1; dim >= 0; --dim)
      if (!last || dim != kChannel) step(dim);
    stored_ = box.empty() ? 0 : next;
  }

  const Box& box() const { return box_; }
  Interval range(int dim) const { return box_[dim]; }
  bool empty() const { return stored_ == 0; }
  T* data() const { return data_; }
  bool holds(const Dims& position) const { return outsize::holds(box_, position); }

  T& operator[](const Dims& position) const {
    std::int64_t offset = 0;
    for (int dim = 0; dim < box_.rank(); ++dim) offset += part(dim, position[dim]);
    return data_[offset];
  }
  // The element at these coordinates, as many as the rank.
  template <class... Coordinates>
  requires(sizeof...(Coordinates) >= 1 && (std::is_same_v<Coordinates, std::int64_t> && ...)) T& operator()(
      Coordinates... coordinates) const {
    std::int64_t offset = 0;
    int dim = 0;
    ((offset += part(dim++, coordinates)), ...);
    return data_[offset];
  }

  // Sets every stored element to zero, the channels that pad the last block included.
  void clear() const requires(!std::is_const_v<T>) { std::fill_n(data_, stored_, T{}); }
  // Sets only the channels that pad the last block to zero: what a kernel owes that writes every element itself, or in place.
  void clear_padding() const requires(!std::is_const_v<T>) {
    if (block_ == 1 || empty() || box_.extent(kChannel) % block_ == 0) return;
    Box padding = box_;
    padding.set(kChannel, {box_.hi[kChannel], box_.lo[kChannel] + blocks() * block_});
    for_each_position(padding, [this](const Dims& position) { (*this)[position] = T{}; });
  }

  // Calls `function(position)` for every position of the view's box.
  template <class Function>
  void for_each(Function&& function) const {
    for_each_position(box_, std::forward<Function>(function));
  }

 private:
  static constexpr int kChannel = 1;

  std::int64_t blocks() const { return (box_.extent(kChannel) + block_ - 1) / block_; }
  std::int64_t part(int dim, std::int64_t coordinate) const {
    const std::int64_t index = coordinate - box_.lo[dim];
    // Only a channel index is split, and only in blocked maps; everything else is affine.
    if (dim == kChannel && block_ > 1) return index / block_ * stride_[dim] + index % block_;
    return index * stride_[dim];
  }

  T* data_ = nullptr;
  Box box_;
  Dims stride_;
  std::int64_t block_ = 1;
  std::int64_t stored_ = 0;
};

// Everything a reference kernel sees of one call: the op with its types and attributes, and the pieces as views.
class ReferenceCall {
 public:
  ReferenceCall(const OpSite& site, const StorageRule& rule, const KernelRun& run) : site_(site), rule_(rule), run_(run) {}

  const OpSite& site() const { return site_; }
  // The type of a whole input or output value.
  const ValueType& in_type(int i) const { return site_.in(i); }
  const ValueType& out_type(int i) const { return site_.out(i); }
  bool has_in(int i) const { return i < site_.inputs(); }
  bool has_out(int i) const { return i < site_.outputs(); }
  const Box& owned() const { return run_.owned; }

  // Input or output i as elements of type T, which must be its dtype.
  template <class T>
  View<const T> in(int i) const {
    return {reinterpret_cast<const T*>(run_.in[index(i)]), run_.in_boxes[index(i)], in_type(i).format, rule_};
  }
  template <class T>
  View<T> out(int i) const {
    return {reinterpret_cast<T*>(run_.out[index(i)]), run_.out_boxes[index(i)], out_type(i).format, rule_};
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  const OpSite& site_;
  const StorageRule& rule_;
  const KernelRun& run_;
};

// Calls `function.template operator()<T>()` with T = float or double, so: dispatch(dtype, [&]<class T>() { … });
template <class Function>
void dispatch(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f32: return function.template operator()<float>();
    case DType::f64: return function.template operator()<double>();
    default: internal_error("reference kernels compute in f32 and f64, not in {}", name_of(dtype));
  }
}

using ReferenceFunction = void (*)(const ReferenceCall&);

// The kernel factory of a plain function: table.add("relu", reference_kernel<relu>).
template <ReferenceFunction function>
std::unique_ptr<Kernel> reference_kernel(const Call& call, const StorageRule& storage) {
  class Loops final : public Kernel {
   public:
    Loops(const OpSite& site, const StorageRule& rule) : site_(site), rule_(rule) {}
    std::string name() const override { return "loops"; }
    void run(const KernelRun& run) const override { function(ReferenceCall(site_, rule_, run)); }

   private:
    OpSite site_;
    StorageRule rule_;
  };
  return std::make_unique<Loops>(call.site, storage);
}

}  // namespace outsize
