# src/README.md has a row for every folder of src/, and none for another.
file(GLOB_RECURSE files RELATIVE ${SOURCE}/src ${SOURCE}/src/*/*)
list(TRANSFORM files REPLACE "/.*" "" OUTPUT_VARIABLE folders)
list(REMOVE_DUPLICATES folders)
list(SORT folders)

file(READ ${SOURCE}/src/README.md text)
string(REGEX MATCHALL "\n\\| `[a-z]+/`" rows "${text}")
list(TRANSFORM rows REPLACE "[^a-z]" "")
list(SORT rows)
if(NOT "${rows}" STREQUAL "${folders}")
  message(FATAL_ERROR "src/README.md has rows for ${rows}; the folders are ${folders}")
endif()
