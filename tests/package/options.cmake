# cmake -D SOURCE_DIR=<lockstep> -P options.cmake
#
# Fails if an option of the build is missing from cmake/packaging/README.md, or one of the tests from
# there and from CONTRIBUTING.md.

cmake_minimum_required(VERSION 3.24)

file(READ "${SOURCE_DIR}/cmake/packaging/README.md" readme)
file(READ "${SOURCE_DIR}/CONTRIBUTING.md" contributing)
string(APPEND readme "${contributing}")
file(GLOB_RECURSE files "${SOURCE_DIR}/cmake/*.cmake" "${SOURCE_DIR}/tests/*.cmake" "${SOURCE_DIR}/tests/CMakeLists.txt"
     "${SOURCE_DIR}/benchmarks/CMakeLists.txt")
set(missing "")
foreach(file IN LISTS files ITEMS "${SOURCE_DIR}/CMakeLists.txt")
  file(STRINGS "${file}" lines REGEX "^option\\(|^set\\(LOCKSTEP_[A-Z_]+ .*CACHE ")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "LOCKSTEP_[A-Z_]+" option "${line}")
    string(FIND "${readme}" "| `${option}`" position)
    if(position EQUAL -1)
      string(APPEND missing "\n  ${option}")
    endif()
  endforeach()
endforeach()
if(missing)
  message(FATAL_ERROR "cmake/packaging/README.md names no such option of the build:${missing}")
endif()
