# Lockstep can be built and installed as it is, and a project of its own can use it in each of the
# ways that the README names: installed (headers only, and with the compiled part), as a
# subdirectory, and through FetchContent.

set(prefix "${CMAKE_CURRENT_BINARY_DIR}/package/prefix")
get_property(fetched GLOBAL PROPERTY LOCKSTEP_FETCHED)

lockstep_add_source_test(package.install COMMAND "${CMAKE_COMMAND}" --install "${PROJECT_BINARY_DIR}" --prefix "${prefix}")
set_tests_properties(package.install PROPERTIES FIXTURES_SETUP installed RESOURCE_LOCK build_folder)

# Dependencies that were fetched are not fetched once more.
set(fetched_options "")
foreach(dependency IN LISTS fetched)
  FetchContent_GetProperties(${dependency})
  string(TOUPPER "${dependency}" upper)
  list(APPEND fetched_options "-DFETCHCONTENT_SOURCE_DIR_${upper}=${${dependency}_SOURCE_DIR}")
endforeach()

# How its programs are compiled matters only where that of the tests does (with sanitizers).
set(package_flags "-O0 -g0")
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(package_flags "${CMAKE_CXX_FLAGS_DEBUG}")
endif()

function(lockstep_add_package_test name)
  set(options "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" -DCMAKE_BUILD_TYPE=Debug
              "-DCMAKE_CXX_FLAGS_DEBUG=${package_flags}" ${fetched_options} ${ARGN})
  lockstep_add_source_test(
    package.${name}
    COMMAND
      "${CMAKE_CTEST_COMMAND}" --build-and-test "${CMAKE_CURRENT_SOURCE_DIR}/package/${name}"
      "${CMAKE_CURRENT_BINARY_DIR}/package/${name}" --build-generator "${CMAKE_GENERATOR}" --build-options ${options}
      --test-command trainer)
endfunction()

# Without a preset, for installation only.
if(fetched)
  lockstep_add_skipped_test(package.plain LABEL full
                            "a plain build must do without the network, and so needs installed dependencies")
else()
  lockstep_add_source_test(
    package.plain LABEL full
    COMMAND "${CMAKE_COMMAND}" -D "SOURCE_DIR=${PROJECT_SOURCE_DIR}" -D "COMPILER=${CMAKE_CXX_COMPILER}" -D
            "BUILD_DIR=${CMAKE_CURRENT_BINARY_DIR}/package/plain" -P "${CMAKE_CURRENT_SOURCE_DIR}/package/plain.cmake")
endif()

# The README names each option of the build.
lockstep_add_source_test(
  package.options COMMAND "${CMAKE_COMMAND}" -D "SOURCE_DIR=${PROJECT_SOURCE_DIR}" -P
                          "${CMAKE_CURRENT_SOURCE_DIR}/package/options.cmake")

lockstep_add_package_test(add_subdirectory "-DLOCKSTEP_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
lockstep_add_package_test(fetch_content "-DLOCKSTEP_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
if(fetched OR NOT LOCKSTEP_BUILD_COMPILED)
  foreach(name IN ITEMS find_package compiled)
    lockstep_add_skipped_test(package.${name} "it needs installed dependencies and LOCKSTEP_BUILD_COMPILED")
  endforeach()
else()
  lockstep_add_package_test(find_package "-DCMAKE_PREFIX_PATH=${prefix}")
  lockstep_add_package_test(compiled "-DCMAKE_PREFIX_PATH=${prefix}")
  set_tests_properties(package.find_package package.compiled PROPERTIES FIXTURES_REQUIRED installed)
  if(TARGET lockstep::mpi)
    lockstep_add_package_test(mpi "-DCMAKE_PREFIX_PATH=${prefix}")
    set_tests_properties(package.mpi PROPERTIES FIXTURES_REQUIRED installed)
  endif()
endif()

# --- package managers: cmake/packaging ---

lockstep_add_source_test(
  package.versions COMMAND "${CMAKE_COMMAND}" -D "SOURCE_DIR=${PROJECT_SOURCE_DIR}" -D "VERSION=${PROJECT_VERSION}" -P
                           "${CMAKE_CURRENT_SOURCE_DIR}/package/versions.cmake")

# lockstep_add_packager_test(<name> PROGRAM <program> [HINTS <folder>] [FIXTURE <fixture>]):
# package/<name>.cmake, which is told where the program is.
function(lockstep_add_packager_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PROGRAM;HINTS;FIXTURE" "")
  string(TOUPPER "${name}" upper)
  find_program(LOCKSTEP_${upper} NAMES ${arg_PROGRAM} HINTS ${arg_HINTS})
  mark_as_advanced(LOCKSTEP_${upper})
  if(NOT LOCKSTEP_${upper})
    lockstep_add_skipped_test(package.${name} LABEL full "there is no ${arg_PROGRAM}")
  elseif(fetched OR NOT LOCKSTEP_BUILD_COMPILED)
    lockstep_add_skipped_test(package.${name} LABEL full "it needs installed dependencies and LOCKSTEP_BUILD_COMPILED")
  else()
    lockstep_add_source_test(
      package.${name} LABEL full
      COMMAND "${CMAKE_COMMAND}" -D "${upper}=${LOCKSTEP_${upper}}" -D "SOURCE_DIR=${PROJECT_SOURCE_DIR}" -D
              "PREFIX=${prefix}" -D "COMPILER=${CMAKE_CXX_COMPILER}" -D
              "BUILD_DIR=${CMAKE_CURRENT_BINARY_DIR}/package/${name}" -P
              "${CMAKE_CURRENT_SOURCE_DIR}/package/${name}.cmake")
    if(arg_FIXTURE)
      set_tests_properties(package.${name} PROPERTIES FIXTURES_REQUIRED ${arg_FIXTURE})
    endif()
  endif()
endfunction()

lockstep_add_packager_test(pkg_config PROGRAM pkg-config FIXTURE installed)
lockstep_add_packager_test(conan PROGRAM conan HINTS "${PROJECT_SOURCE_DIR}/build/tools/bin") # see .ci/run
lockstep_add_packager_test(vcpkg PROGRAM vcpkg)
