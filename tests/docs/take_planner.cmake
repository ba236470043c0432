# The planner of docs/adding-a-planner.md: its file, the declarations and the table of planners with the documented lines, and the example.
include(${CMAKE_CURRENT_LIST_DIR}/blocks.cmake)
set(document docs/adding-a-planner.md)
set(planners src/plan/planners)

foreach(path ${planners}/swap_all.cpp three_layers.graph three_layers.plan)
  write_block(${document} ${path})
endforeach()

take_block(declaration ${document} ${planners}/planners.h 1)
file(READ ${SOURCE}/${planners}/planners.h text)
insert_after(text "namespace outsize {" "${declaration}")
file(WRITE ${OUTPUT}/${planners}/planners.h "${text}")

take_block(line ${document} ${planners}/registry.cpp 1)
file(READ ${SOURCE}/${planners}/registry.cpp text)
insert_after(text "  static const std::vector<Planner> all{" "${line}")
file(WRITE ${OUTPUT}/${planners}/registry.cpp "${text}")
