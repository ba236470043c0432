#pragma once

#include "plan/tiling/tiled.h"

namespace outsize {

// Which tiled plans are tried.
struct TiledSearch {
  TiledChoice::Halo halo = TiledChoice::Halo::overlap;
  bool checkpoints = false;
  std::int64_t layers = 0;  // so many run tile by tile; 0: all those up to one after which maps are smaller, and all, are tried
  bool whole = true;        // none may, where everything fits as it is
  std::optional<TiledChoice::Stream> stream = std::nullopt;  // nothing: what is fastest
  std::optional<Remake> remake = std::nullopt;               // likewise
  CutPass cut = cut_to_fastest;
};

// The fastest of tiled plans; with checkpoints, also of those that store values between layers (where maps become smaller, every
// √n, third, second layer, after each).
Planned<Plan> fastest_tiled_plan(const PlanRequest& request, std::string_view planner, const TiledSearch& search);

}  // namespace outsize
