#pragma once

#include <algorithm>
#include <cmath>

#include "graph/opdef.h"

namespace outsize {

// The extents and attributes of an attention op or its gradient, read from the site: q [B, Tq, H·D], k and v [B, Tk, H·D].
struct AttentionShape {
  std::int64_t samples;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t heads;
  std::int64_t width;  // of a head
  bool causal;
  double scale;
  double dropout;
  std::uint32_t stream;
  int mask;  // the input that is the mask, or -1
  int key;   // the input that is the dropout's key, or -1

  // `first` is the input that is q; mask and key follow `fixed` inputs.
  AttentionShape(const OpSite& site, int first, int fixed)
      : samples(site.in(first).shape[0]),
        queries(site.in(first).shape[1]),
        keys(site.in(first + 1).shape[1]),
        heads(site.integer("heads")),
        width(site.in(first).shape[2] / heads),
        causal(site.integer("causal") != 0),
        scale(site.number("scale") != 0 ? site.number("scale") : 1 / std::sqrt(static_cast<double>(width))),
        dropout(site.number("p")),
        stream(static_cast<std::uint32_t>(site.integer("stream"))),
        mask(site.integer("mask") != 0 ? fixed : -1),
        key(dropout > 0 ? fixed + (mask >= 0 ? 1 : 0) : -1) {}

  // How many keys query i may look at.
  std::int64_t keys_of(std::int64_t i) const { return causal ? std::clamp<std::int64_t>(i + 1 + keys - queries, 0, keys) : keys; }
  // The place of weight (sample, head, i, 0) among all weights: what its random number is drawn by.
  std::int64_t place(std::int64_t sample, std::int64_t head, std::int64_t i) const {
    return ((sample * heads + head) * queries + i) * keys;
  }
};

inline AttentionShape attention_shape(const OpSite& site) { return {site, 0, 3}; }
inline AttentionShape attention_grad_shape(const OpSite& site) { return {site, 1, 6}; }

}  // namespace outsize
