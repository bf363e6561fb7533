# cmake -D COMPILER=<compiler> -D FLAGS=<response file> -D INCLUDE=<include folder>
#       -P umbrella.cmake
#
# Fails if lockstep/lockstep.hpp leaves out a header.

cmake_minimum_required(VERSION 3.24)

execute_process(COMMAND "${COMPILER}" "@${FLAGS}" -M -MG -D LOCKSTEP_HAS_MPI=1 -x c++ "${INCLUDE}/lockstep/lockstep.hpp" OUTPUT_VARIABLE included
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE headers "${INCLUDE}/lockstep/*.hpp")
set(missing "")
foreach(header IN LISTS headers)
  string(FIND "${included}" " ${header}" position)
  if(position EQUAL -1)
    list(APPEND missing "${header}")
  endif()
endforeach()
if(missing)
  list(JOIN missing "\n  " missing)
  message(FATAL_ERROR "lockstep/lockstep.hpp does not include\n  ${missing}")
endif()
