# cmake -D PKG_CONFIG=<program> -D PREFIX=<where lockstep is installed> -D COMPILER=<compiler>
#       -D BUILD_DIR=<folder> -P pkg_config.cmake
#
# A program is built with what pkg-config says, from an installed tree that was moved.

cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

file(REMOVE_RECURSE "${BUILD_DIR}")
file(COPY "${PREFIX}/" DESTINATION "${BUILD_DIR}/moved")
file(GLOB_RECURSE pc "${BUILD_DIR}/moved/lockstep.pc")
cmake_path(GET pc PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} "${pc_dir}")

set(program "${CMAKE_CURRENT_LIST_DIR}/program.cpp")
foreach(name IN ITEMS lockstep lockstep-compiled)
  execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs ${name} OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  if(name STREQUAL "lockstep")
    run("${COMPILER}" -std=c++20 -E "${program}" ${flags} -o /dev/null) # finds all headers
  else()
    run("${COMPILER}" -std=c++20 "${program}" ${flags} -o "${BUILD_DIR}/program")
    run("${BUILD_DIR}/program")
  endif()
endforeach()
