#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace outsize {

// The text form, which a person can write by hand and which round-trips (values keep their order, so print, parse, print gives
// the same text):
//
//   graph tiny                                  # a comment
//   input x f32[2, 3, 32, 32]
//   input labels i32[2]
//   param conv1.weight f32[8, 3, 3, 3] init=normal:0.1
//   state bn1.running_mean f32[8] init=zeros
//   conv1: y = conv2d(x, conv1.weight) padding=[1, 1, 1, 1]
//   loss: loss = softmax_cross_entropy(z, labels)
//   output loss
//
// One line declares one value or op; a value must be declared before it is read.
//   type   f32, f64, i32 or u8 and the extents. A rank-4 or -5 input or result is a map unless written f32.plain[...]; a parameter
//          or state is plain unless written f32.map[...].
//   init   zeros (the default), ones, normal:STD or uniform:HALFWIDTH.
//   op     NAME: RESULT, … = KIND(INPUT, …) ATTRIBUTE=VALUE …; results left out are named after the op. After the call may follow
//          ": TYPE, …", which is checked against the inferred types. An op that replaces persistent values is an update by itself.
//
// After autodiff an op line also ends with marks, one entry a result:
//   @backward(conv1)        a backward op, part of the gradient of op conv1
//   @update                 an update
//   @gradient(w, b+, _)     the results are the gradient of w, a part of that of b (summed later), and no value's gradient
// A seed is an input with @gradient(loss).

// The graph as text; attributes that have their default are left out.
std::string print_graph(const Graph& graph);

// Throws UserError "FILE:LINE: …" saying what was expected; `file` names the text in messages.
Graph parse_graph(std::string_view text, std::string_view file);

// The forward graph of a network that is to be trained. Throws UserError like parse_graph(), and also where the outputs do not
// depend on a parameter, which would never change, and where an op is incomplete (OpDef::expect_complete).
Graph parse_network(std::string_view text, std::string_view file);

}  // namespace outsize
