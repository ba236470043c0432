#pragma once

#include "program/program.h"

namespace outsize {

// Sets every instruction's waits from the byte ranges it touches: read after write, write after read and write after write across
// lanes, whether the cause is data or the reuse of an address. Offsets must be set.
void derive_waits(Program& program);

}  // namespace outsize
