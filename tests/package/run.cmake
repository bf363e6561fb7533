# For the scripts in this folder. Each is run by
#
#   cmake -D SOURCE_DIR=<lockstep> -D PREFIX=<where it is installed> -D BUILD_DIR=<folder>
#         -D COMPILER=<compiler> -D LAUNCHER=<ccache or nothing> -D GENERATOR=<CMake's>
#         -D FLAGS=<of the compiler> -D OPTIONS=<of CMake> -P <script>

set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${LAUNCHER}") # which CMake reads, also inside of Conan
set(pretend "-DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CURRENT_LIST_DIR}/pretend.sh") # compiles nothing

# run(<command>...): fails with the command's output when the command does, and else leaves that in
# `output`.
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# refuse(<regex> <command>...): the command fails, and says that.
function(refuse regex)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: does not fail")
  endif()
  expect("${regex}")
endfunction()

# expect(<regex> [<times>]): `output` says that, so often.
function(expect regex)
  string(REGEX MATCHALL "${regex}" found "${output}")
  list(LENGTH found count)
  if(NOT found OR ARGC GREATER 1 AND NOT count EQUAL "${ARGV1}")
    message(FATAL_ERROR "${count} times '${regex}', where it should be '${ARGV1}' times (empty: any), in\n${output}")
  endif()
endfunction()

# expect_not(<regex>)
function(expect_not regex)
  if(output MATCHES "${regex}")
    message(FATAL_ERROR "'${regex}' should not be in\n${output}")
  endif()
endfunction()
