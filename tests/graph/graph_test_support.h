#pragma once

#include <gtest/gtest.h>

#include <string>

#include "graph/text.h"
#include "ops/registry.h"

namespace outsize {

// A graph from its text, with every op of the engine known.
inline Graph graph_of(std::string_view text) {
  register_ops();
  return parse_graph(text, "test.graph");
}

// The message of the error of type E that `action` throws; a failure when it throws none.
template <class E, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace outsize
