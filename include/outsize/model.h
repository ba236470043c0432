#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "outsize/dtype.h"

namespace outsize {

// What a model of the zoo can be asked for. A size of 0 is the model's own.
struct ModelOptions {
  std::int64_t batch = 8;
  std::int64_t image_height = 0;
  std::int64_t image_width = 0;
  std::int64_t image_depth = 0;  // of volumes
  std::int64_t sequence = 0;     // tokens a sample
  std::int64_t classes = 0;      // or the vocabulary, of a model of tokens
  double width = 1;              // multiplies every hidden channel count (of transformers: the heads, of 64 channels each)
  double dropout = -1;           // every rate of dropout and stochastic depth; negative: as published
  double label_smoothing = 0;
  DType dtype = DType::f32;

  // A hidden channel count of the published network, times `width`.
  std::int64_t channels(std::int64_t published) const;
};

// A model: a name of the zoo (`outsize models`) with its options, or a graph file (*.graph, or any path).
struct ModelRequest {
  std::string name;
  ModelOptions options = {};
  std::string precision = {};              // f64 as the options say; f32: strict; tf32 or empty: a card rounds factors of products
  bool own_sizes = false;                  // every sample has its own extents
  std::vector<std::string> zoo_only = {};  // options that were given and that a graph file has no use for, as messages call them

  bool is_file() const { return name.ends_with(".graph") || name.find('/') != std::string::npos; }
};

}  // namespace outsize
