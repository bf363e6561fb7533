# cmake -D COMPILER=<g++> -D FLAGS=<response file> -D OPTIONS=<list> -D SOURCE=<file> -D NM=<nm>
#       -D SIZE=<size> -D FUNCTIONS=<most> -D TEXT=<most> -D REASON=<sentence>
#       -D OBJECT=<file to write> -P compile_budget.cmake
#
# Compiles a program, and fails if its object defines more functions or more bytes of text than it
# may. What takes long to compile shows in these numbers, which are the same at each run.

cmake_minimum_required(VERSION 3.24)

execute_process(COMMAND "${COMPILER}" "@${FLAGS}" ${OPTIONS} -c "${SOURCE}" -o "${OBJECT}"
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${NM}" --defined-only "${OBJECT}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " [TtWw] " functions "${symbols}")
list(LENGTH functions functions)
execute_process(COMMAND "${SIZE}" -B "${OBJECT}" OUTPUT_VARIABLE sizes COMMAND_ERROR_IS_FATAL ANY)
if(NOT sizes MATCHES "\n *([0-9]+)")
  message(FATAL_ERROR "cannot read what ${SIZE} says:\n${sizes}")
endif()
set(text ${CMAKE_MATCH_1})

set(found "${SOURCE} defines ${functions} functions (at most ${FUNCTIONS}) and ${text} bytes of text (at most ${TEXT})")
message(STATUS "${found}")
if(functions GREATER FUNCTIONS OR text GREATER TEXT)
  message(FATAL_ERROR "${found}: ${REASON}")
endif()
