# The op of docs/adding-an-op.md: its folder, and the registry's header with the documented line.
include(${CMAKE_CURRENT_LIST_DIR}/blocks.cmake)
set(document docs/adding-an-op.md)

foreach(file op.cpp reference.cpp cpu.cpp cuda.cu cases.h)
  write_block(${document} src/ops/elu/${file})
endforeach()

take_block(line ${document} src/ops/registry.h 1)
file(READ ${SOURCE}/src/ops/registry.h text)
insert_after(text "#define OUTSIZE_OPS(X) \\" "${line}")
file(WRITE ${OUTPUT}/src/ops/registry.h "${text}")
