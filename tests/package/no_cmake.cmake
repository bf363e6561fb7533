# cmake -D SOURCE_DIR=<lockstep> -D COMPILER=<compiler> -D FLAGS=<response file> -D BUILD_DIR=<folder>
#       -D LIBRARIES=<list> -P no_cmake.cmake
#
# A program is built by the compiler alone, in two halves: the library as one source, and the
# program's own file, which needs seconds.

cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

file(MAKE_DIRECTORY "${BUILD_DIR}")
set(compile "${COMPILER}" "@${FLAGS}" -O0 -pthread)
run(${compile} -c "${SOURCE_DIR}/include/lockstep/lockstep.cpp" -o "${BUILD_DIR}/lockstep.o")
run(${compile} -DLOCKSTEP_COMPILED "${CMAKE_CURRENT_LIST_DIR}/program.cpp" "${BUILD_DIR}/lockstep.o" -o
    "${BUILD_DIR}/program" ${LIBRARIES})
run("${BUILD_DIR}/program")
