#pragma once

#include <algorithm>

#include "graph/opdef.h"

namespace outsize {

// The pairs of an op's outputs and inputs that run in place: of those that the op allows (OpDef::in_place, OpDef::updates), in
// their order, where `may(pair)` says that nothing reads the input afterwards, the output begins here, and both take the same
// bytes. An output takes the place of one input, an input gives its place to one output, and none that the op reads twice gives it.
template <class May>
InPlacePairs in_place_pairs(const OpSite& site, const May& may) {
  InPlacePairs chosen;
  const auto consider = [&](const InPlacePair& pair) {
    const auto meets = [&](const InPlacePair& other) { return other.output == pair.output || other.input == pair.input; };
    const ValueId input = site.op.inputs[pair.input];
    if (std::ranges::any_of(chosen, meets) || std::ranges::count(site.op.inputs, input) > 1 || !may(pair)) return;
    chosen.push_back(pair);
  };
  for (const InPlacePair& pair : site.op.def->in_place(site)) consider(pair);
  for (const InPlacePair& pair : site.op.updates) consider(pair);
  return chosen;
}

}  // namespace outsize
