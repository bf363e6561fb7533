# cmake -D VCPKG=<program> -D SOURCE_DIR=<lockstep> -D BUILD_DIR=<folder> -P vcpkg.cmake
#
# vcpkg builds the overlay port, with all dependencies, and a program finds what it has installed.

cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

file(REMOVE_RECURSE "${BUILD_DIR}/installed")
run("${VCPKG}" install lockstep "--overlay-ports=${SOURCE_DIR}/cmake/packaging/vcpkg"
    "--x-install-root=${BUILD_DIR}/installed")
file(GLOB prefix LIST_DIRECTORIES ON "${BUILD_DIR}/installed/*-linux*")
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/trainer" -B "${BUILD_DIR}/program"
    "-DCMAKE_PREFIX_PATH=${prefix}")
run("${CMAKE_COMMAND}" --build "${BUILD_DIR}/program")
run("${BUILD_DIR}/program/trainer")
