# cmake -D COMPILER=<compiler> -D FLAGS=<response file> -D SOURCE=<file> -P check.cmake
#
# SOURCE has a mistake between `#ifdef LOCKSTEP_COMPILE_FAIL` and `#endif`, or several, between
# `#if LOCKSTEP_COMPILE_FAIL == 1` and so on. Comments say what the compiler must reply to each:
#
#   // expect-error: <regex>     the first of them matches the compiler's first message, an `error:`
#                                line; each further one matches some `error:` line
#   // expect-nearby: <regex>    matches that first line, one of the two before it, or one of the
#                                notes right behind it (eight lines)
#   // expect-count: <number>    there are no more `error:` lines than that
#   // expect-within: <bytes>    the first `error:` line begins within so many bytes
#   // flags: <flags>            the compiler gets these too; they may be the mistake by themselves
#
# Those of the second mistake are written `// expect-error 2: <regex>` and so on.
#
# The regular expressions are CMake's; in the messages that they see, ( ) stand for [ ], a comma for
# ; and / for \. With the macro the file must not compile and every expectation must be met; without
# it the file must compile. The compiler is told not to quote source lines, so that neighbouring
# lines are messages, but where the file says `// with quotes`.

cmake_minimum_required(VERSION 3.24)

if(COMPILER MATCHES "clang")
  set(no_quotes -fno-caret-diagnostics)
else()
  set(no_quotes -fno-diagnostics-show-caret)
endif()
file(STRINGS "${SOURCE}" with_quotes REGEX "^// with quotes$")
if(with_quotes)
  set(no_quotes "")
endif()
set(compile "${CMAKE_COMMAND}" -E env LC_ALL=C "${COMPILER}" "@${FLAGS}" -DLOCKSTEP_COMPILED=1 -fsyntax-only
            ${no_quotes} -fdiagnostics-color=never) # (what is compiled once need not be parsed here)

# The values of the comments `// <kind>: <value>`, or `// <kind> <mistake>: <value>`.
function(read_comments kind mistake out)
  set(number " ${mistake}")
  if(mistake EQUAL 1)
    set(number "( 1)?")
  endif()
  file(STRINGS "${SOURCE}" comments REGEX "^ *// ${kind}${number}: ")
  list(TRANSFORM comments REPLACE "^ *// ${kind}${number}: " "")
  set(${out} "${comments}" PARENT_SCOPE)
endfunction()

function(check_mistake mistake)
  read_comments(flags ${mistake} flags)
  separate_arguments(flags)
  execute_process(COMMAND ${compile} -DLOCKSTEP_COMPILE_FAIL=${mistake} ${flags} "${SOURCE}" RESULT_VARIABLE result
                  ERROR_VARIABLE output)
  if(result EQUAL 0)
    message(FATAL_ERROR "with LOCKSTEP_COMPILE_FAIL=${mistake} it must not compile")
  endif()

  # One list element a line; brackets and semicolons would split or join elements.
  string(REPLACE ";" "," lines "${output}")
  string(REPLACE "[" "(" lines "${lines}")
  string(REPLACE "]" ")" lines "${lines}")
  string(REPLACE "\\" "/" lines "${lines}")
  string(REPLACE "\n" ";" lines "${lines}")

  set(messages "${lines}")
  list(FILTER messages INCLUDE REGEX "(error|warning|note): ")
  list(GET messages 0 first_message)
  list(FIND lines "${first_message}" first)
  set(error_lines "${messages}")
  list(FILTER error_lines INCLUDE REGEX "error: ")
  math(EXPR from "${first} - 2")
  if(from LESS 0)
    set(from 0)
  endif()
  math(EXPR count "${first} + 9 - ${from}")
  list(SUBLIST lines ${from} ${count} nearby)

  set(missing "")
  set(candidates "${first_message}")
  list(FILTER candidates INCLUDE REGEX "error: ")
  read_comments(expect-error ${mistake} expectations)
  foreach(regex IN LISTS expectations)
    list(FILTER candidates INCLUDE REGEX "${regex}")
    if(NOT candidates)
      string(APPEND missing "\n  error: ${regex}")
    endif()
    set(candidates "${error_lines}")
  endforeach()
  read_comments(expect-nearby ${mistake} expectations)
  foreach(regex IN LISTS expectations)
    set(candidates "${nearby}")
    list(FILTER candidates INCLUDE REGEX "${regex}")
    if(NOT candidates)
      string(APPEND missing "\n  nearby: ${regex}")
    endif()
  endforeach()
  read_comments(expect-count ${mistake} most)
  list(LENGTH error_lines errors)
  if(most AND errors GREATER most)
    string(APPEND missing "\n  at most ${most} errors, these are ${errors}")
  endif()
  read_comments(expect-within ${mistake} within)
  string(FIND "${output}" "error: " place)
  if(within AND place GREATER within)
    string(APPEND missing "\n  the first error within ${within} bytes, it begins behind ${place}")
  endif()
  if(missing)
    message(NOTICE "${output}")
    message(FATAL_ERROR "mistake ${mistake}: the compiler's message lacks:${missing}")
  endif()
endfunction()

execute_process(COMMAND ${compile} "${SOURCE}" RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(NOTICE "${output}")
  message(FATAL_ERROR "without LOCKSTEP_COMPILE_FAIL it must compile")
endif()

set(mistake 1)
read_comments(expect-error 1 expectations)
while(expectations)
  read_comments(flags ${mistake} flags)
  set(guard "^#ifn?def LOCKSTEP_COMPILE_FAIL|^#(el)?if LOCKSTEP_COMPILE_FAIL == ${mistake}$")
  file(STRINGS "${SOURCE}" guards REGEX "${guard}")
  if(NOT guards AND NOT flags)
    message(FATAL_ERROR "${SOURCE} has no `#if LOCKSTEP_COMPILE_FAIL == ${mistake}`")
  endif()
  check_mistake(${mistake})
  math(EXPR mistake "${mistake} + 1")
  read_comments(expect-error ${mistake} expectations)
endwhile()
if(mistake EQUAL 1)
  message(FATAL_ERROR "${SOURCE} needs an `// expect-error: <regex>`")
endif()
