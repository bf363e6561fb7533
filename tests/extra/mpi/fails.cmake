# cmake -D MPIEXEC=<mpiexec> -D RANKS=<its option> -D PROGRAM=<failures> -D NAME=<failure>
#       -D CODE=<exit code> -D EXPECTED=<regex> -P fails.cmake
#
# Fails unless the job of 2 ranks ends with that exit code, within a minute, and its output matches.

cmake_minimum_required(VERSION 3.24)

execute_process(COMMAND "${MPIEXEC}" "${RANKS}" 2 "${PROGRAM}" "${NAME}" RESULT_VARIABLE code OUTPUT_VARIABLE output
                ERROR_VARIABLE output TIMEOUT 60)
if(NOT code EQUAL CODE OR NOT output MATCHES "${EXPECTED}")
  message(FATAL_ERROR "exit code ${code}, expected ${CODE}; the output must match '${EXPECTED}':\n${output}")
endif()
