# The plans that docs/plans.md shows are those that tests/skeleton runs.
include(${CMAKE_CURRENT_LIST_DIR}/blocks.cmake)

foreach(path tests/skeleton/h-all-at-once.plan)
  take_block(shown docs/plans.md ${path} 1)
  file(READ ${SOURCE}/${path} run)
  if(NOT "${shown}" STREQUAL "${run}")
    message(FATAL_ERROR "docs/plans.md shows another ${path} than the file")
  endif()
endforeach()
