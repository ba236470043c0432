#include "run/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/text.h"

namespace outsize {

double LearningRate::at(std::int64_t step) const {
  if (step < warm_up) return base * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  const std::int64_t since = step - warm_up;
  switch (kind) {
    case Kind::constant: return base;
    case Kind::step: return every > 0 ? base * std::pow(factor, static_cast<double>(since / every)) : base;
    case Kind::cosine: {
      const std::int64_t length = std::max<std::int64_t>(1, total - warm_up);
      const double part = std::min(1.0, static_cast<double>(since) / static_cast<double>(length));
      return least + (base - least) * (1 + std::cos(std::numbers::pi * part)) / 2;
    }
  }
  return base;
}

LearningRate::Kind parse_schedule(const std::string& name) {
  if (name == "constant") return LearningRate::Kind::constant;
  if (name == "step") return LearningRate::Kind::step;
  if (name == "cosine") return LearningRate::Kind::cosine;
  user_error("unknown schedule '{}'; expected constant, step or cosine", name);
}

}  // namespace outsize
