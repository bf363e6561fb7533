# -D EIGEN=<folder>, and what run.cmake lists.
#
# g++ alone builds a program: from the headers alone, and in two halves, of which lockstep.cpp is
# needed once.

cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

file(REMOVE_RECURSE "${BUILD_DIR}")
file(MAKE_DIRECTORY "${BUILD_DIR}")
separate_arguments(FLAGS)
set(compile ${LAUNCHER} "${COMPILER}" -std=c++20 ${FLAGS} "-I${SOURCE_DIR}/include" -isystem "${EIGEN}")
set(program "${CMAKE_CURRENT_LIST_DIR}/program.cpp")

run(${compile} "${program}" -o "${BUILD_DIR}/trainer" -pthread)
run("${BUILD_DIR}/trainer")

run(${compile} -c "${SOURCE_DIR}/include/lockstep/lockstep.cpp" -o "${BUILD_DIR}/lockstep.o")
run(${compile} -D LOCKSTEP_COMPILED "${program}" "${BUILD_DIR}/lockstep.o" -o "${BUILD_DIR}/trainer" -pthread)
run("${BUILD_DIR}/trainer")
