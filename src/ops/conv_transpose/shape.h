#pragma once

#include "ops/conv/shape.h"

namespace outsize {

// The windows of the convolution that a transposed one transposes: they slide over its result, one a position of its input, whose
// extent is (in − 1)·stride − before − after + dilation·(kernel − 1) + output_padding + 1.
// Throws UserError when an attribute is malformed or leaves no result.
inline SlidingWindows transposed_windows(const OpSite& site) {
  const std::span<const std::int64_t> kernel = spatial(site.in(1).shape);
  const std::span<const std::int64_t> input = spatial(site.in(0).shape);
  const std::size_t rank = input.size();
  const std::vector<std::int64_t>& stride = expect_list(site, "stride", rank, 1);
  const std::vector<std::int64_t>& padding = expect_list(site, "padding", 2 * rank, 0);
  const std::vector<std::int64_t>& dilation = expect_list(site, "dilation", rank, 1);
  const std::vector<std::int64_t>& more = expect_list(site, "output_padding", rank, 0);
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::string_view name = spatial_name(static_cast<int>(rank), static_cast<int>(i));
    if (more[i] >= stride[i])
      user_error("attribute output_padding must be below the stride, but along {} it is {} with stride {}", name, more[i],
                 stride[i]);
    extents.push_back((input[i] - 1) * stride[i] - padding[i] - padding[rank + i] + dilation[i] * (kernel[i] - 1) + more[i] + 1);
    if (extents[i] < 1)
      user_error("the padding must leave a result, but along {} its extent is {}: use less padding", name, extents[i]);
  }
  return sliding_windows(site, kernel, extents, true);
}

}  // namespace outsize
