#include "ops/registry.h"

namespace outsize {

#define OUTSIZE_DECLARE(name) void define_##name(OpList&);
OUTSIZE_OPS(OUTSIZE_DECLARE)
#undef OUTSIZE_DECLARE

void register_ops() {
  static const bool done = [] {
    OpList defs;
#define OUTSIZE_DEFINE(name) define_##name(defs);
    OUTSIZE_OPS(OUTSIZE_DEFINE)
#undef OUTSIZE_DEFINE
    set_op_defs(std::move(defs));
    return true;
  }();
  (void)done;
}

}  // namespace outsize
