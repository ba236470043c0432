#pragma once

#include <cstdint>

#include "base/id_vector.h"

namespace outsize {

// A vector whose size and subscripts are signed: of positions that are reckoned with (runs, levels, layers, instants), where no id
// stands for one.
template <class T>
using Table = IdVector<std::int64_t, T>;

}  // namespace outsize
