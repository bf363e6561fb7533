# cmake -D COMPILER=<compiler> -D FLAGS=<response file> -D INCLUDE=<include folder>
#       -P umbrella.cmake
#
# Fails if a header is in none of the faces (include/lockstep/*.hpp and those of extra/), or if the end of lockstep.hpp
# names one that is not there.

cmake_minimum_required(VERSION 3.24)

file(STRINGS "${INCLUDE}/lockstep/lockstep.hpp" named REGEX "// #include <[^>]+>$")
list(TRANSFORM named REPLACE ".*// #include <([^>]+)>$" "${INCLUDE}/\\1")
file(GLOB faces "${INCLUDE}/lockstep/*.hpp" "${INCLUDE}/lockstep/extra/*.hpp")
execute_process(COMMAND "${COMPILER}" "@${FLAGS}" -M -MG -D LOCKSTEP_HAS_MPI=1 -D LOCKSTEP_HAS_NCCL=1 -D LOCKSTEP_HAS_HDF5=1
                        -x c++ ${faces} ${named}
                OUTPUT_VARIABLE included COMMAND_ERROR_IS_FATAL ANY)
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
  message(FATAL_ERROR "no face includes\n  ${missing}")
endif()
