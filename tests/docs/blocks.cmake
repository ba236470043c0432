# Takes code blocks out of a document of docs/, for scripts run as
#   cmake -DSOURCE=<repository> -DOUTPUT=<folder> -P <script>
# A block is named by the heading it follows: a line of #s and a path in backticks. Contents are only ever quoted: they hold semicolons.

# Sets `variable` to block `number` (from 1) under the heading `path` of `document`, without its fences.
function(take_block variable document path number)
  file(READ "${SOURCE}/${document}" text)
  string(FIND "${text}" "# `${path}`\n" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${document} has no heading `${path}`")
  endif()
  string(SUBSTRING "${text}" ${at} -1 text)
  foreach(i RANGE 1 ${number})
    # The opening fence, which may name a language, then the closing one.
    string(FIND "${text}" "\n```" at)
    string(FIND "${text}" "\n#" heading)
    if(at EQUAL -1 OR (heading GREATER -1 AND heading LESS at))
      message(FATAL_ERROR "${document} has no block ${i} under `${path}`")
    endif()
    math(EXPR at "${at} + 1")
    string(SUBSTRING "${text}" ${at} -1 text)
    string(FIND "${text}" "\n" at)
    math(EXPR at "${at} + 1")
    string(SUBSTRING "${text}" ${at} -1 text)
    string(FIND "${text}" "\n```\n" at)
    math(EXPR at "${at} + 1")
    string(SUBSTRING "${text}" 0 ${at} block)
    math(EXPR at "${at} + 3")
    string(SUBSTRING "${text}" ${at} -1 text)
  endforeach()
  set(${variable} "${block}" PARENT_SCOPE)
endfunction()

# Writes the block under the heading `path` to that path of the output folder.
function(write_block document path)
  take_block(block "${document}" "${path}" 1)
  file(WRITE "${OUTPUT}/${path}" "${block}")
endfunction()

# Sets `variable` to its text with `addition` after the first line `line`.
function(insert_after variable line addition)
  string(FIND "${${variable}}" "${line}\n" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "there is no line '${line}' to add a documented line to")
  endif()
  string(LENGTH "${line}\n" length)
  math(EXPR at "${at} + ${length}")
  string(SUBSTRING "${${variable}}" 0 ${at} before)
  string(SUBSTRING "${${variable}}" ${at} -1 after)
  set(${variable} "${before}${addition}${after}" PARENT_SCOPE)
endfunction()
