# cmake -D COMPILER=<compiler> -D FLAGS=<response file> -D SOURCE=<file> -D WITHOUT=<regex>
#       -P without.cmake
#
# Fails if a file that SOURCE includes, however indirectly, matches the regular expression.

cmake_minimum_required(VERSION 3.24)

execute_process(COMMAND "${COMPILER}" "@${FLAGS}" -M "${SOURCE}" OUTPUT_VARIABLE files COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]*${WITHOUT}[^ \n]*" offences "${files}")
if(offences)
  list(JOIN offences "\n  " offences)
  message(FATAL_ERROR "${SOURCE} includes\n  ${offences}")
endif()
