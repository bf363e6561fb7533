# What run.cmake lists.
#
# `cmake -S . -B build && cmake --build build && cmake --install build` needs no network and no
# doctest, and compiles the library, optimised, and nothing else.

cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

file(REMOVE_RECURSE "${BUILD_DIR}")
run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${SOURCE_DIR}" -B "${BUILD_DIR}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
    -DFETCHCONTENT_FULLY_DISCONNECTED=ON -DCMAKE_DISABLE_FIND_PACKAGE_doctest=ON "${pretend}")
run("${CMAKE_COMMAND}" --build "${BUILD_DIR}")

expect("lockstep: building the library, once" 1)
file(GLOB sources "${SOURCE_DIR}/include/lockstep/src/*.cpp")
list(LENGTH sources count)
expect("Building CXX object [^\n]*/src/[a-z]+\\.cpp\\.o" ${count})
expect("Building" ${count})

run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${BUILD_DIR}/prefix")
foreach(name IN ITEMS lockstep.hpp lockstep.cpp kernels.cpp liblockstep.a lockstepConfig.cmake lockstep.pc)
  expect("/${name}\n" 1)
endforeach()

file(STRINGS "${BUILD_DIR}/CMakeCache.txt" output REGEX "^CMAKE_BUILD_TYPE:")
expect("=Release")
