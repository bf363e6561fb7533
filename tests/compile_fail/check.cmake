# cmake -D COMPILER=<compiler> -D FLAGS=<response file> -D SOURCE=<file> -P check.cmake
#
# SOURCE has a mistake between `#ifdef LOCKSTEP_COMPILE_FAIL` and `#endif`, and says in comments what the compiler must reply:
#
#   // expect-error: <regex>     the first of them matches the first `error:` line, each further one some `error:` line
#   // expect-nearby: <regex>    matches that line, one of the two before it, or one of the notes right behind it (five lines)
#
# The regular expressions are CMake's; in the messages that they see, ( ) stand for [ ], a comma for ; and / for \.
# With the macro the file must not compile and every expectation must be met; without it the file must compile. The compiler
# is told not to quote source lines, so that neighbouring lines are messages.

cmake_minimum_required(VERSION 3.24)

if(COMPILER MATCHES "clang")
  set(no_quotes -fno-caret-diagnostics)
else()
  set(no_quotes -fno-diagnostics-show-caret)
endif()
set(compile "${CMAKE_COMMAND}" -E env LC_ALL=C "${COMPILER}" "@${FLAGS}" -fsyntax-only ${no_quotes} -fdiagnostics-color=never)

file(STRINGS "${SOURCE}" expectations REGEX "^ *// expect-(error|nearby): ")
file(STRINGS "${SOURCE}" guards REGEX "^#ifn?def LOCKSTEP_COMPILE_FAIL")
if(NOT expectations MATCHES "// expect-error: " OR NOT guards)
  message(FATAL_ERROR "${SOURCE} needs an `#ifdef LOCKSTEP_COMPILE_FAIL` and an `// expect-error: <regex>`")
endif()

execute_process(COMMAND ${compile} "${SOURCE}" RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(NOTICE "${output}")
  message(FATAL_ERROR "without LOCKSTEP_COMPILE_FAIL it must compile")
endif()

execute_process(COMMAND ${compile} -DLOCKSTEP_COMPILE_FAIL "${SOURCE}" RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "with LOCKSTEP_COMPILE_FAIL it must not compile")
endif()

# One list element a line; brackets and semicolons would split or join elements.
string(REPLACE ";" "," lines "${output}")
string(REPLACE "[" "(" lines "${lines}")
string(REPLACE "]" ")" lines "${lines}")
string(REPLACE "\\" "/" lines "${lines}")
string(REPLACE "\n" ";" lines "${lines}")

set(error_lines "")
set(first_error -1)
set(number 0)
foreach(line IN LISTS lines)
  if(line MATCHES "error: ")
    list(APPEND error_lines "${line}")
    if(first_error EQUAL -1)
      set(first_error ${number})
    endif()
  endif()
  math(EXPR number "${number} + 1")
endforeach()
math(EXPR from "${first_error} - 2")
if(from LESS 0)
  set(from 0)
endif()
math(EXPR count "${first_error} + 6 - ${from}")
list(SUBLIST lines ${from} ${count} nearby)

set(first ON)
set(missing "")
foreach(expectation IN LISTS expectations)
  string(REGEX MATCH "expect-([a-z]+): (.*)$" matched "${expectation}")
  set(kind "${CMAKE_MATCH_1}")
  set(regex "${CMAKE_MATCH_2}")
  if(kind STREQUAL "nearby")
    set(candidates "${nearby}")
  elseif(first)
    list(GET error_lines 0 candidates)
    set(first OFF)
  else()
    set(candidates "${error_lines}")
  endif()
  list(FILTER candidates INCLUDE REGEX "${regex}")
  if(NOT candidates)
    string(APPEND missing "\n  ${expectation}")
  endif()
endforeach()
if(missing)
  message(NOTICE "${output}")
  message(FATAL_ERROR "the compiler's message lacks:${missing}")
endif()
