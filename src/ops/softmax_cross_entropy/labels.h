#pragma once

#include "graph/opdef.h"

namespace outsize {

// What softmax_cross_entropy and its gradient make of labels; `count_input` is where the optional count stands.
struct LabelRule {
  std::int64_t classes;
  bool ignores;           // where there is a count
  std::int64_t ignored;   // the label of rows that then count nothing
  double smoothing;       // ε: the target is (1 - ε) onehot + ε / classes
  std::int64_t all_rows;  // of the value: what the mean divides by where there is no count

  LabelRule(const OpSite& site, int count_input)
      : classes(site.in(0).shape[site.in(0).format == Format::map ? 1 : site.in(0).shape.rank() - 1]),
        ignores(site.inputs() > count_input),
        ignored(site.integer("ignore_index")),
        smoothing(site.number("label_smoothing")),
        all_rows(site.in(1).elements()) {}

  bool counts(std::int64_t label) const { return !ignores || label != ignored; }
  bool fits(std::int64_t label) const { return !counts(label) || (label >= 0 && label < classes); }

  // Labels come with the data, so that a bad one is the user's to mend: throws UserError. `row` is its place in the call's box.
  [[noreturn]] void refuse(std::int64_t label, std::int64_t row) const {
    user_error("label {} at row {} is outside [0, {}); labels must count the classes from 0", label, row, classes);
  }
};

}  // namespace outsize
