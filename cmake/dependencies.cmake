# The libraries behind lockstep: the installed ones if there are any, otherwise the sources of a
# pinned release.

include(FetchContent)

# lockstep_dependency(<package> <target> [VERSION <minimum>] DEBIAN <package> URL <url>
#                     SHA256 <hash> INCLUDE <folder> [DEFINE <definition>...])
#
# All of these are headers, so a fetched one is an include folder and its own CMake project is not
# run. It becomes an imported target with the name that its package uses: lockstep's export refers
# to either by that name.
function(lockstep_dependency package target)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "VERSION;DEBIAN;URL;SHA256;INCLUDE" "DEFINE")
  if(NOT TARGET ${target})
    find_package(${package} ${arg_VERSION} QUIET GLOBAL)
  endif()
  if(TARGET ${target})
    return()
  endif()

  message(NOTICE "lockstep: ${package} ${arg_VERSION} is not installed (Debian: ${arg_DEBIAN}), fetching ${arg_URL}")
  string(TOLOWER "lockstep_${package}" name)
  FetchContent_Declare(
    ${name}
    URL ${arg_URL}
    URL_HASH SHA256=${arg_SHA256}
    DOWNLOAD_EXTRACT_TIMESTAMP ON
    SOURCE_SUBDIR no-cmake-project)
  FetchContent_MakeAvailable(${name})
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE "${${name}_SOURCE_DIR}/${arg_INCLUDE}")
  target_compile_definitions(${target} INTERFACE ${arg_DEFINE})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_FETCHED ${name})
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED GLOBAL)
find_package(ZLIB QUIET GLOBAL) # optional: reads .gz data files
find_package(OpenSSL 1.1.1 QUIET COMPONENTS Crypto SSL GLOBAL) # optional: LOCKSTEP_CLUSTER_SECRET, TLS

include("${CMAKE_CURRENT_LIST_DIR}/images.cmake") # optional: lockstep::images
include("${CMAKE_CURRENT_LIST_DIR}/hdf5.cmake") # optional: lockstep::hdf5
include("${CMAKE_CURRENT_LIST_DIR}/nccl.cmake") # optional: lockstep::nccl

set(LOCKSTEP_WITH_MPI AUTO CACHE STRING "Offer lockstep::mpi: ON, OFF, or AUTO, if there is an MPI library")
set_property(CACHE LOCKSTEP_WITH_MPI PROPERTY STRINGS AUTO ON OFF)
if(LOCKSTEP_WITH_MPI)
  include("${CMAKE_CURRENT_LIST_DIR}/mpi.cmake")
  if(NOT TARGET lockstep::mpi AND NOT LOCKSTEP_WITH_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "lockstep: LOCKSTEP_WITH_MPI is ${LOCKSTEP_WITH_MPI}, and CMake finds no MPI library for C++ "
                        "(Debian: libopenmpi-dev); set MPI_CXX_COMPILER to its compiler, or LOCKSTEP_WITH_MPI to OFF")
  endif()
endif()

list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/modules") # FindAsio.cmake

lockstep_dependency(
  Eigen3 Eigen3::Eigen
  VERSION 3.4
  DEBIAN libeigen3-dev
  URL https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz
  SHA256 8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72
  INCLUDE .)
lockstep_dependency(
  Asio asio::asio
  VERSION 1.18
  DEBIAN libasio-dev
  URL https://github.com/chriskohlhoff/asio/archive/refs/tags/asio-1-22-1.tar.gz
  SHA256 30cb54a5de5e465d10ec0c2026d6b5917f5e89fffabdbabeb1475846fc9a2cf0
  INCLUDE asio/include
  DEFINE ASIO_STANDALONE)
lockstep_dependency(
  nlohmann_json nlohmann_json::nlohmann_json
  VERSION 3.9
  DEBIAN nlohmann-json3-dev
  URL https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
  SHA256 8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f
  INCLUDE include)
lockstep_dependency(
  cereal cereal::cereal
  DEBIAN libcereal-dev
  URL https://github.com/USCiLab/cereal/archive/refs/tags/v1.3.2.tar.gz
  SHA256 16a7ad9b31ba5880dac55d62b5d6f243c3ebc8d46a3514149e56b5e7ea81f85f
  INCLUDE include)
if(LOCKSTEP_BUILD_TESTS)
  lockstep_dependency(
    doctest doctest::doctest
    VERSION 2.4.6
    DEBIAN doctest-dev
    URL https://github.com/doctest/doctest/archive/refs/tags/v2.4.9.tar.gz
    SHA256 19b2df757f2f3703a5e63cee553d85596875f06d91a3333acd80a969ef210856
    INCLUDE .)
endif()
