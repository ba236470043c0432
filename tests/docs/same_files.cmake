# What docs/plans.md shows are the plans that tests/skeleton runs; what README shows is the example that tests/api builds and runs.
include(${CMAKE_CURRENT_LIST_DIR}/blocks.cmake)

function(expect_same document path)
  take_block(shown ${document} ${path} 1)
  file(READ ${SOURCE}/${path} there)
  if(NOT "${shown}" STREQUAL "${there}")
    message(FATAL_ERROR "${document} shows another ${path} than the file")
  endif()
endfunction()

expect_same(docs/plans.md tests/skeleton/h-all-at-once.plan)
expect_same(README.md examples/train.cpp)
