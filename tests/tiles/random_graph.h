#pragma once

#include <random>

#include "model/builder.h"
#include "ops/window.h"

namespace outsize {

// Draws small training graphs, the same for the same numbers drawn: everything that maps of two or three dimensions go through, of
// odd extents and of one.
class RandomGraph {
 public:
  explicit RandomGraph(std::mt19937_64& random) : random_(random), builder_("random", options(random)) {}

  // A forward graph with the inputs x and labels (or target) and the output loss.
  Graph make() {
    ValueId x = builder_.image(one_of({1, 2, 3, 4}));
    for (std::int64_t blocks = below(5) + 1; blocks > 0; --blocks) x = block(x);
    return loss(x);
  }

 private:
  static ModelOptions options(std::mt19937_64& random) {
    const auto draw = [&](std::uint64_t count) { return static_cast<std::int64_t>(random() % count); };
    ModelOptions made{.batch = draw(3) + 1, .classes = 4, .dtype = DType::f64};
    const bool volume = draw(4) == 0;
    const std::uint64_t most = volume ? 6 : 12;
    for (std::int64_t* extent : {&made.image_height, &made.image_width}) *extent = draw(8) == 0 ? 1 : 1 + draw(most);
    if (volume) made.image_depth = 1 + draw(most);
    return made;
  }

  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count)); }
  bool one_in(std::int64_t count) { return below(count) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<std::int64_t>(list.size())));
  }
  std::string name(std::string_view kind) { return fmt::format("{}{}", kind, ++layers_); }
  const Dims& shape(ValueId x) const { return builder_.shape(x); }
  int dims(ValueId x) const { return shape(x).rank() - 2; }
  std::int64_t positions(ValueId x) const {
    std::int64_t count = 1;
    for (int dim = 2; dim < shape(x).rank(); ++dim) count *= shape(x)[dim];
    return count;
  }
  // A common divisor of two channel counts.
  std::int64_t groups(std::int64_t a, std::int64_t b) {
    std::vector<std::int64_t> found;
    for (std::int64_t count = 1; count <= std::min(a, b); ++count)
      if (a % count == 0 && b % count == 0) found.push_back(count);
    return found[static_cast<std::size_t>(below(static_cast<std::int64_t>(found.size())))];
  }
  ValueId vector(const std::string& of, std::int64_t extent) { return builder_.parameter(of, {extent}, {Init::Kind::normal, 1}); }
  ValueId filter(const std::string& of, std::int64_t outputs, std::int64_t inputs, const std::vector<std::int64_t>& kernel) {
    Dims extents{outputs, inputs};
    for (const std::int64_t extent : kernel) extents.push_back(extent);
    return builder_.parameter(of, extents, {Init::Kind::normal, 1 / std::sqrt(static_cast<double>(extents.product() / outputs))});
  }

  // Windows that each hold an element of the input.
  struct Windows {
    std::vector<std::int64_t> kernel, stride, before, after, dilation;

    std::vector<std::int64_t> padding() const {
      std::vector<std::int64_t> both = before;
      both.insert(both.end(), after.begin(), after.end());
      return both;
    }
  };
  Windows windows(ValueId x, bool dilated) {
    Windows drawn;
    for (int dim = 2; dim < shape(x).rank(); ++dim) {
      WindowAxis axis{.input = shape(x)[dim]};
      for (int tries = 0; tries < 20; ++tries) {
        WindowAxis tried{.kernel = below(5) + 1, .stride = one_of({1, 1, 1, 2, 2, 3}), .input = shape(x)[dim]};
        if (dilated && one_in(4)) tried.dilation = 2;
        tried.before = below(tried.reach());
        tried.after = below(tried.reach());
        const std::int64_t last = tried.output() - 1;
        if (last < 0 || tried.inputs_of({0, 1}).empty() || tried.inputs_of({last, last + 1}).empty()) continue;
        axis = tried;
        break;
      }
      drawn.kernel.push_back(axis.kernel);
      drawn.stride.push_back(axis.stride);
      drawn.before.push_back(axis.before);
      drawn.after.push_back(axis.after);
      drawn.dilation.push_back(axis.dilation);
    }
    return drawn;
  }

  // With a bias only where an activation follows: before a norm its gradient would be 0 but for rounding.
  ValueId conv(ValueId x, std::int64_t channels, const Windows& window, std::int64_t groups, bool bias) {
    const std::string layer = name("conv");
    std::vector<ValueId> inputs{x, filter(layer + ".weight", channels, shape(x)[1] / groups, window.kernel)};
    if (bias) inputs.push_back(vector(layer + ".bias", channels));
    return builder_.emit(
        layer, fmt::format("conv{}d", dims(x)), std::move(inputs),
        {{"stride", window.stride}, {"padding", window.padding()}, {"dilation", window.dilation}, {"groups", groups}});
  }
  ValueId conv(ValueId x, bool bias) {
    const std::int64_t channels = one_of({1, 2, 3, 4, 6});
    return conv(x, channels, windows(x, true), groups(shape(x)[1], channels), bias);
  }
  // One whose result has ⌈extent / stride⌉ positions.
  ValueId same_conv(ValueId x, std::int64_t channels, std::int64_t kernel, std::int64_t stride, bool bias = true) {
    const auto all = [&](std::int64_t number) { return std::vector<std::int64_t>(static_cast<std::size_t>(dims(x)), number); };
    return conv(x, channels, {all(kernel), all(stride), all(kernel / 2), all(kernel / 2), all(1)}, 1, bias);
  }
  ValueId conv_transpose(ValueId x) {
    const std::string layer = name("up");
    const std::int64_t channels = one_of({1, 2, 4});
    const std::int64_t group_count = groups(shape(x)[1], channels);
    Windows window;
    std::vector<std::int64_t> more;
    for (int dim = 2; dim < shape(x).rank(); ++dim) {
      const std::int64_t stride = below(3) + 1, dilation = one_in(4) ? 2 : 1;
      // Every position of the input reaches the result: padding is less than the kernel, or there are more positions.
      const std::int64_t kernel = below(4) + 1;
      window.kernel.push_back(kernel);
      window.stride.push_back(stride);
      window.dilation.push_back(dilation);
      const std::int64_t reach = dilation * (kernel - 1) + 1;
      window.before.push_back(below((reach + 1) / 2));
      window.after.push_back(below((reach + 1) / 2));
      more.push_back(below(stride));
    }
    std::vector<ValueId> inputs{x, filter(layer + ".weight", shape(x)[1], channels / group_count, window.kernel)};
    const bool bias = one_in(2);
    if (bias) inputs.push_back(vector(layer + ".bias", channels));
    const ValueId up = builder_.emit(layer, fmt::format("conv_transpose{}d", dims(x)), std::move(inputs),
                                     {{"stride", window.stride},
                                      {"padding", window.padding()},
                                      {"dilation", window.dilation},
                                      {"groups", group_count},
                                      {"output_padding", more}});
    return bias ? activation(up) : up;
  }
  ValueId pool(ValueId x) {
    const Windows window = windows(x, false);
    Attributes attributes{{"kernel", window.kernel}, {"stride", window.stride}, {"padding", window.padding()}};
    if (one_in(2)) return builder_.emit(name("max"), "max_pool", {x}, std::move(attributes));
    attributes["count_include_pad"] = below(2);
    return builder_.emit(name("average"), "avg_pool", {x}, std::move(attributes));
  }
  ValueId adaptive(ValueId x) {
    std::vector<std::int64_t> output;
    for (int dim = 2; dim < shape(x).rank(); ++dim) output.push_back(below(shape(x)[dim] + 1) + 1);
    return builder_.emit(name("adaptive"), "adaptive_avg_pool", {x}, {{"output", output}});
  }
  ValueId resize(ValueId x, const Dims* like = nullptr) {
    std::vector<std::int64_t> output;
    for (int dim = 2; dim < shape(x).rank(); ++dim)
      output.push_back(like ? (*like)[dim] : one_in(2) ? 2 * shape(x)[dim] : below(2 * shape(x)[dim]) + 1);
    Attributes attributes{{"output", output}};
    if (one_in(2)) {
      attributes["mode"] = std::string("linear");
      attributes["align_corners"] = below(2);
    }
    return builder_.emit(name("resize"), "upsample", {x}, std::move(attributes));
  }
  // A norm's shift is drawn too: what is 0 but for rounding before a relu would have a gradient or none by chance.
  ValueId norm(ValueId x) {
    const std::int64_t channels = shape(x)[1];
    if (one_in(6) && dims(x) == 2 && channels > 1) return builder_.map_layer_norm(name("layer_norm"), x);
    const bool batch = one_in(2);
    const std::int64_t count = one_in(3) ? channels : one_in(2) ? 1 : groups(channels, channels);
    if (positions(x) * (batch ? shape(x)[0] : channels / count) < 2) return x;
    const std::string layer = name(batch ? "batch_norm" : "group_norm");
    const ValueId gamma = vector(layer + ".weight", channels), beta = vector(layer + ".bias", channels);
    if (!batch) {
      const ValueId stats = builder_.emit(layer + ".stats", "group_norm_stats", {x}, {{"groups", count}});
      const ValueId moments = builder_.emit(layer + ".finalize", "batch_norm_finalize", {stats}, {{"eps", kEps}});
      return builder_.emit(layer, "group_norm_apply", {x, moments, gamma, beta}, {{"groups", count}});
    }
    const ValueId mean = builder_.state(layer + ".running_mean", {channels}, {});
    const ValueId variance = builder_.state(layer + ".running_var", {channels}, {Init::Kind::ones, 0});
    const ValueId stats = builder_.emit(layer + ".stats", "batch_norm_stats", {x});
    const ValueId moments = builder_.emit(layer + ".finalize", "batch_norm_finalize", {stats}, {{"eps", kEps}});
    builder_.emit(layer + ".update", "batch_norm_update", {mean, variance, stats});
    return builder_.emit(layer, "batch_norm_apply", {x, moments, gamma, beta});
  }
  ValueId activation(ValueId x) {
    switch (below(6)) {
      case 0: return builder_.leaky_relu(name("leaky"), x, 0.1);
      case 1: return builder_.gelu(name("gelu"), x, one_in(2) ? "none" : "tanh");
      case 2: return builder_.emit(name("silu"), "silu", {x});
      case 3: return builder_.emit(name("tanh"), "tanh", {x});
      default: return builder_.relu(name("relu"), x);
    }
  }
  ValueId dropout(ValueId x) {
    return one_in(3) ? builder_.stochastic_depth(name("depth"), x, 0.3) : builder_.dropout(name("dropout"), x, 0.3);
  }
  // A convolution, perhaps a norm, perhaps an activation.
  ValueId layer(ValueId x, std::int64_t channels, std::int64_t stride) {
    const bool normed = one_in(2), active = one_in(2);
    return finished(same_conv(x, channels, one_of({1, 3, 3, 5}), stride, active && !normed), normed, active);
  }
  ValueId finished(ValueId x, bool normed, bool active) {
    if (normed) x = norm(x);
    return active ? activation(x) : x;
  }
  ValueId residual(ValueId x) {
    const std::int64_t stride = one_of({1, 1, 2, 3}), channels = stride == 1 && one_in(2) ? shape(x)[1] : one_of({2, 4});
    ValueId inner = layer(x, channels, stride);
    if (one_in(2)) inner = layer(inner, channels, 1);
    ValueId shortcut = x;
    const bool normed = one_in(3);
    if (stride > 1 || channels != shape(x)[1]) shortcut = same_conv(x, channels, 1, stride, !normed);
    if (normed) shortcut = norm(shortcut == x ? activation(x) : shortcut);
    return activation(builder_.add(name("add"), inner, shortcut));
  }
  ValueId dense(ValueId x) {
    const ValueId more = layer(x, one_of({1, 2, 3}), 1);
    if (shape(more)[1] == shape(x)[1] && one_in(2)) return builder_.concat(name("stack"), {x, more, x}, 2 + below(dims(x)));
    return builder_.concat(name("concat"), one_in(2) ? std::vector{x, more} : std::vector{more, x, more}, 1);
  }
  ValueId squeeze_and_excite(ValueId x) {
    ValueId scale = builder_.global_avg_pool(name("squeeze"), x);
    scale = builder_.relu(name("relu"), same_conv(scale, 2, 1, 1));
    scale = builder_.emit(name("sigmoid"), "sigmoid", {same_conv(scale, shape(x)[1], 1, 1)});
    return builder_.mul(name("excite"), x, scale);
  }
  // Down, a layer, up again, beside what was there before.
  ValueId detour(ValueId x) {
    const ValueId below_it = layer(pool(x), 2, 1);
    const Dims extents = shape(x);
    return builder_.concat(name("beside"), {x, resize(below_it, &extents)}, 1);
  }
  ValueId slice_or_pad(ValueId x) {
    const int dim = 2 + static_cast<int>(below(dims(x)));
    const std::int64_t extent = shape(x)[dim];
    if (one_in(2)) {
      const std::int64_t from = below(extent);
      return builder_.slice(name("slice"), x, dim, from, from + 1 + below(extent - from));
    }
    std::vector<std::int64_t> before(static_cast<std::size_t>(shape(x).rank()), 0), after = before;
    before[static_cast<std::size_t>(dim)] = below(3);
    after[static_cast<std::size_t>(dim)] = below(3);
    return builder_.emit(name("pad"), "pad", {x}, {{"before", before}, {"after", after}, {"value", 0.5}});
  }
  // Values that are read twice, by one op or by several.
  ValueId twice(ValueId x) {
    if (one_in(3)) return builder_.add(name("double"), x, x);
    if (one_in(2))
      return builder_.mul(name("gate"), x, builder_.emit(name("sigmoid"), "sigmoid", {same_conv(x, shape(x)[1], 3, 1)}));
    if (shape(x)[1] == 1) return builder_.mul(name("square"), x, x);
    if (const int dim = 2 + static_cast<int>(below(dims(x))); shape(x)[dim] > 1 && one_in(2)) {
      const std::vector<ValueId> parts = builder_.split(name("rows"), x, dim, {1, shape(x)[dim] - 1});
      return builder_.concat(name("turn"), {layer(parts[1], shape(x)[1], 1), parts[0], parts[1]}, dim);
    }
    const std::vector<ValueId> parts = builder_.split(name("split"), x, 1, {1, shape(x)[1] - 1});
    return builder_.concat(name("join"), {parts[1], layer(parts[0], 2, 1), parts[0]}, 1);
  }

  ValueId block(ValueId x) {
    if (positions(x) * shape(x)[1] > 1500) return pool(x);
    switch (below(18)) {
      case 0: return conv_transpose(x);
      case 1:
      case 2: return pool(x);
      case 3: return adaptive(activation(x));
      case 4: return resize(x);
      case 5: return norm(activation(x));
      case 6: return activation(x);
      case 7: return dropout(x);
      case 8:
      case 9: return residual(x);
      case 10: return dense(x);
      case 11: return squeeze_and_excite(x);
      case 12: return detour(x);
      case 13: return slice_or_pad(x);
      case 14: return twice(x);
      default: {
        const bool normed = one_in(2), active = one_in(2);
        return finished(conv(x, active && !normed), normed, active);
      }
    }
  }

  // Over classes of samples, over classes of positions, or over values.
  Graph loss(ValueId x) {
    const std::int64_t kind = below(6);
    if (kind == 0) return builder_.regress(same_conv(x, 2, 1, 1));
    if (kind <= 2) {  // a head; the mean of a norm's results would be its shift, and all gradients 0 but for rounding
      x = activation(x);
      if (one_in(2))
        x = builder_.global_avg_pool(name("pool"), x);
      else if (one_in(2))
        x = adaptive(x);
      return builder_.classify(builder_.linear("head", builder_.flatten("flat", x), 4));
    }
    const ValueId logits = same_conv(x, 4, 1, 1);
    if (kind == 3) return builder_.classify(logits);
    const ValueId labels = builder_.labels_of(logits);
    if (kind == 4) {
      const std::int64_t ignored = 2;
      const ValueId count =
          builder_.emit("count", "label_count", {labels}, {{"ignore_index", ignored}, {"dtype", std::string("f64")}});
      return builder_.minimise(
          builder_.emit("loss", "softmax_cross_entropy", {logits, labels, count}, {{"ignore_index", ignored}}));
    }
    const ValueId sums = builder_.emit("sums", "dice_sums", {builder_.emit("share", "sigmoid", {logits}), labels});
    return builder_.minimise(builder_.emit("loss", "dice_loss", {sums}));
  }

  // Large: behind a relu that lets nothing through a map is constant, and what its norm makes of rounding, which should be 0, is to
  // be small beside the tolerance.
  static constexpr double kEps = 100;

  std::mt19937_64& random_;
  ModelBuilder builder_;
  std::int64_t layers_ = 0;
};

}  // namespace outsize
