#pragma once

#include "outsize/reports.h"

namespace outsize::cli {

void print_explanation(const Explanation& explanation);
// As one JSON object.
void print_explanation_json(const Explanation& explanation);

}  // namespace outsize::cli
