#pragma once

#include <span>

#include "model/builder.h"

namespace outsize {

// One convolution of a branch, with batch norm and relu behind it: its module, channels and window.
struct InceptionConv {
  std::string_view name;
  std::int64_t channels = 0;
  WindowShape window;
};

// The layers that both Inceptions are made of; batch norms have an eps of 0.001.
class InceptionLayers {
 public:
  explicit InceptionLayers(ModelBuilder& builder) : builder_(builder) { builder_.norm_eps = 1e-3; }

  // The convolution "<module>.conv", its norm "<module>.bn" and a relu.
  ValueId conv(const std::string& module, ValueId x, std::int64_t channels, const WindowShape& window) const {
    x = builder_.conv(module + ".conv", x, builder_.channels(channels), window, false);
    return builder_.relu(module + ".relu", builder_.batch_norm(module + ".bn", x));
  }

  // Convolutions one after another, each named "<block>.<its name>".
  ValueId chain(const std::string& block, ValueId x, std::span<const InceptionConv> convs) const {
    for (const InceptionConv& one : convs) x = conv(fmt::format("{}.{}", block, one.name), x, one.channels, one.window);
    return x;
  }
  ValueId chain(const std::string& block, ValueId x, std::initializer_list<InceptionConv> convs) const {
    return chain(block, x, std::span(convs.begin(), convs.size()));
  }

  ValueId concat(const std::string& block, std::vector<ValueId> branches) const {
    return builder_.concat(block + ".concat", std::move(branches));
  }
  // Halves the map: 3×3 maximum in steps of two.
  ValueId shrink(const std::string& name, ValueId x) const { return builder_.max_pool(name, x, {.kernel = 3, .stride = 2}); }
  // 3×3 mean in steps of one.
  ValueId smooth(const std::string& name, ValueId x, bool count_padding) const {
    return builder_.avg_pool(name, x, {.kernel = 3, .padding = 1}, count_padding);
  }

 private:
  ModelBuilder& builder_;
};

// The windows that occur.
inline WindowShape one_by_one() { return {.kernel = 1}; }
inline WindowShape same(std::int64_t kernel) { return {.kernel = kernel, .padding = kernel / 2}; }
inline WindowShape valid(std::int64_t kernel, std::int64_t stride) { return {.kernel = kernel, .stride = stride}; }
inline WindowShape along_width(std::int64_t kernel) { return {.kernel = {1, kernel}, .padding = {0, kernel / 2}}; }
inline WindowShape along_height(std::int64_t kernel) { return {.kernel = {kernel, 1}, .padding = {kernel / 2, 0}}; }

}  // namespace outsize
