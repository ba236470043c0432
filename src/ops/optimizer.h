#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "ops/both.h"
#include "ops/expect.h"

namespace outsize {

// a · b + c, rounded once. What compilers make of products and sums that are written plainly differs: an update that runs beside a
// card gives the bits that it has on the card.
template <class T>
OUTSIZE_BOTH T multiply_add(T a, T b, T c) {
  return std::fma(a, b, c);
}

// What the ops that update a parameter have in common: inputs 0 to 2 are param, grad and lr [1]; with clip=1 the last input is a
// factor [1] on the gradient, as clip_factor makes it.

inline AttributeSpec clip_spec() {
  return {"clip", std::int64_t{0}, "1: the last input is a factor on the gradient, as of clip_factor"};
}

// The attributes that all of them take from the options.
inline Attributes update_attributes(const TrainingOptions& options) {
  return {{"weight_decay", options.weight_decay}, {"clip", std::int64_t{options.clip_norm > 0}}};
}

inline bool has_factor(const OpSite& site) { return site.integer("clip") != 0; }

// Checks param, grad, lr and factor, and that there are `inputs` inputs besides the factor. Throws UserError.
inline void expect_update(const OpSite& site, int inputs, std::string_view list) {
  expect_float(site, 0);
  const std::int64_t clip = site.integer("clip");
  if (clip != 0 && clip != 1) user_error("attribute clip must be 0 or 1, found {}", clip);
  if (site.inputs() != inputs + has_factor(site))
    user_error("expected the inputs {}{}, found {} inputs", list, has_factor(site) ? ", factor" : "", site.inputs());
  const ValueType& param = site.in(0);
  const ValueType number{param.dtype, {1}, Format::plain};
  expect_type(site, 1, param, "as param");
  expect_type(site, 2, number, "one number of param's type");
  if (has_factor(site) && site.in(inputs) != number)
    user_error("input factor must be {} (one number of param's type), found {}", to_string(number), to_string(site.in(inputs)));
}

// The boxes of an update: the outputs and all inputs but the `numbers` and the factor on the same box, those whole.
inline CallBoxes update_boxes(const OpSite& site, const Box& box, std::initializer_list<int> numbers) {
  CallBoxes boxes;
  for (int i = 0; i < site.inputs(); ++i) {
    const bool factor = has_factor(site) && i + 1 == site.inputs();
    const bool number = factor || std::find(numbers.begin(), numbers.end(), i) != numbers.end();
    boxes.in.push_back(number ? Box::whole(site.in(i).shape) : box);
  }
  boxes.out.assign(static_cast<std::size_t>(site.outputs()), box);
  return boxes;
}

}  // namespace outsize
