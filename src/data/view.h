#pragma once

#include <cstddef>

#include "data/dataset.h"

namespace outsize {

// Where what a model sees of a sample lies in it: a window of the spatial dimensions, which may hang over the sample's border.
struct View {
  Dims origin;            // of its first row and column in the sample; below 0 where it hangs over
  Dims extents;           // rows and columns
  bool mirrored = false;  // left and right
};

// How views are drawn, anew for each sample in each epoch.
struct Augment {
  bool flip = false;  // half of the samples are mirrored
  bool crop = false;  // anywhere, by up to an eighth over the border where a sample is no larger; otherwise views are centred
};

// The view of `extents` in a sample with those spatial extents; an extent 0 stands for the sample's own. `epoch` and `sample`
// choose what `augment` leaves open.
View draw_view(const Dims& sample_extents, const Dims& extents, const Augment& augment, std::uint64_t seed, std::int64_t epoch,
               std::int64_t sample);

// Writes `window` of what `view` shows of the sample's x: channels, then view coordinates. Beyond the sample's border it is 0.
void read_x(const Sample& sample, const View& view, const Box& window, DType dtype, std::byte* out);
// The same of its y, whose last extents are spatial; beyond the border is the label `beyond`.
void read_y(const Sample& sample, const View& view, const Box& window, DType dtype, std::int64_t beyond, std::byte* out);

}  // namespace outsize
