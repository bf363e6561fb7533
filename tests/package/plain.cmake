# cmake -D SOURCE_DIR=<lockstep> -D BUILD_DIR=<folder> -D COMPILER=<compiler> -P plain.cmake
#
# `cmake -S . -B build`, `cmake --build build`, `cmake --install build` work without the network and
# without doctest, and build lockstep::compiled, optimised, and nothing else.

cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

file(REMOVE_RECURSE "${BUILD_DIR}")
set(prefix "${BUILD_DIR}/prefix")

run("${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${BUILD_DIR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
    -DFETCHCONTENT_FULLY_DISCONNECTED=ON -DCMAKE_DISABLE_FIND_PACKAGE_doctest=ON
    -DCMAKE_CXX_FLAGS_RELEASE=-O0) # (optimised code takes a minute longer and shows no more)
run("${CMAKE_COMMAND}" --build "${BUILD_DIR}" --parallel)
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")

file(GLOB_RECURSE objects RELATIVE "${BUILD_DIR}" "${BUILD_DIR}/*.cpp.o")
set(others "${objects}")
list(FILTER others EXCLUDE REGEX "^cmake/compiled/")
if(others OR NOT objects)
  list(JOIN others "\n  " others)
  message(FATAL_ERROR "a plain build compiles something else than the sources of cmake/compiled:\n  ${others}")
endif()

file(STRINGS "${BUILD_DIR}/CMakeCache.txt" build_type REGEX "^CMAKE_BUILD_TYPE:STRING=Release$")
if(NOT build_type)
  message(FATAL_ERROR "a plain build is not optimised")
endif()

foreach(name IN ITEMS lockstep.hpp liblockstep.a lockstepConfig.cmake lockstep.pc lockstep-compiled.pc)
  file(GLOB_RECURSE found RELATIVE "${prefix}" "${prefix}/${name}")
  if(NOT found)
    message(FATAL_ERROR "not installed: ${name}")
  endif()
endforeach()
