# cmake -D SOURCE_DIR=<lockstep> -D VERSION=<its version> -P versions.cmake
#
# The vcpkg port has the library's version, and its portfile asks for each of its features.

cmake_minimum_required(VERSION 3.24)

set(port "${SOURCE_DIR}/cmake/packaging/vcpkg/lockstep")
file(READ "${port}/vcpkg.json" json)
file(READ "${port}/portfile.cmake" portfile)
string(JSON version GET "${json}" version)
if(NOT version STREQUAL VERSION)
  message(FATAL_ERROR "vcpkg.json is for version ${version}, this is ${VERSION}")
endif()
string(JSON last LENGTH "${json}" features)
math(EXPR last "${last} - 1")
foreach(i RANGE ${last})
  string(JSON feature MEMBER "${json}" features ${i})
  if(NOT portfile MATCHES " ${feature} (LOCKSTEP|CMAKE)_")
    message(FATAL_ERROR "portfile.cmake does nothing for the feature ${feature}")
  endif()
endforeach()
