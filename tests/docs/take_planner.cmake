# The planner of docs/adding-a-planner.md: its files, the table of planners with the documented lines, and the example.
include(${CMAKE_CURRENT_LIST_DIR}/blocks.cmake)
set(document docs/adding-a-planner.md)

foreach(path src/plan/swap_all.h src/plan/swap_all.cpp three_layers.graph three_layers.plan)
  write_block(${document} ${path})
endforeach()

take_block(header ${document} src/plan/planner.cpp 1)
take_block(line ${document} src/plan/planner.cpp 2)
file(READ ${SOURCE}/src/plan/planner.cpp text)
insert_after(text "#include \"plan/planner.h\"" "${header}")
insert_after(text "  static const std::vector<Planner> all{" "${line}")
file(WRITE ${OUTPUT}/src/plan/planner.cpp "${text}")
