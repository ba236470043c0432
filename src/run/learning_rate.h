#pragma once

#include <cstdint>
#include <string>

namespace outsize {

// How the learning rate goes over the steps of a run.
struct LearningRate {
  enum class Kind : std::uint8_t { constant, step, cosine } kind = Kind::constant;
  double base = 0.01;
  std::int64_t warm_up = 0;  // the first steps, in which it rises evenly from base / warm_up to base
  std::int64_t every = 0;    // step: it is multiplied by `factor` after each so many steps (counted without the warm-up)
  double factor = 0.1;
  std::int64_t total = 0;  // cosine: the run's steps, at the end of which it reaches `least`
  double least = 0;

  // The rate of step i, counted from 0.
  double at(std::int64_t step) const;
};

// "constant", "step" or "cosine"; throws UserError naming what there is.
LearningRate::Kind parse_schedule(const std::string& name);

}  // namespace outsize
