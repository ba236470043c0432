#pragma once

#include <cstdint>
#include <string>

namespace outsize {

enum class Optimizer : std::uint8_t { sgd, adam, adamw };

// How parameters are updated, as by PyTorch's torch.optim.SGD, Adam and AdamW.
struct TrainingOptions {
  Optimizer optimizer = Optimizer::sgd;
  double momentum = 0.9;    // of sgd
  bool nesterov = false;    // of sgd with momentum
  double weight_decay = 0;  // adamw: decoupled
  double beta1 = 0.9;       // of adam and adamw, as beta2 and eps
  double beta2 = 0.999;
  double eps = 1e-8;
  double clip_norm = 0;    // gradients are scaled down to this norm, taken over all of them; 0: they are not
  bool gradients = false;  // the gradients of all parameters and of x can be read after a step
  bool accuracy = false;   // count how many labels the network meets, where it has labels
};

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

}  // namespace outsize
