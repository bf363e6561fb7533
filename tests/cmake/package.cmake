# Lockstep can be built and installed as it is, and a project of its own can use it in each of the
# ways that the README names. (Where ccache compiles this build, it does so there, too.)

set(package_dir "${CMAKE_CURRENT_BINARY_DIR}/package")
set(prefix "${package_dir}/prefix")
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

# lockstep_add_package_test(<name> [SCRIPT <name>] [INSTALLED] [<option>...]): the
# script of that name in package/; INSTALLED: it needs the prefix, or dependencies that are there.
function(lockstep_add_package_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INSTALLED" "SCRIPT" "")
  if(NOT arg_SCRIPT)
    set(arg_SCRIPT ${name})
  endif()
  if(arg_INSTALLED AND (fetched OR NOT LOCKSTEP_BUILD_COMPILED OR CMAKE_CXX_FLAGS_DEBUG MATCHES "-fsanitize"))
    lockstep_add_skipped_test(package.${name}
                              "it needs installed dependencies, LOCKSTEP_BUILD_COMPILED, and no sanitizer")
    return()
  endif()
  string(REPLACE ";" "$<SEMICOLON>" launcher "${CMAKE_CXX_COMPILER_LAUNCHER}")
  string(REPLACE ";" "$<SEMICOLON>" options "${fetched_options}")
  lockstep_add_source_test(
    package.${name}
    COMMAND "${CMAKE_COMMAND}" -D "SOURCE_DIR=${PROJECT_SOURCE_DIR}" -D "PREFIX=${prefix}" -D
            "BUILD_DIR=${package_dir}/${name}" -D "COMPILER=${CMAKE_CXX_COMPILER}" -D "LAUNCHER=${launcher}" -D
            "GENERATOR=${CMAKE_GENERATOR}" -D "FLAGS=-O0 -g0" -D "OPTIONS=${options}" ${arg_UNPARSED_ARGUMENTS} -P
            "${CMAKE_CURRENT_SOURCE_DIR}/package/${arg_SCRIPT}.cmake")
  if(arg_INSTALLED)
    set_tests_properties(package.${name} PROPERTIES FIXTURES_REQUIRED installed)
  endif()
endfunction()

lockstep_add_package_test(options)
lockstep_add_package_test(versions -D "VERSION=${PROJECT_VERSION}")
lockstep_add_package_test(plain)
set_tests_properties(package.plain PROPERTIES DISABLED "$<BOOL:${fetched}>")

lockstep_add_package_test(fetch_content SCRIPT ways -D WAY=fetch_content)
lockstep_add_package_test(add_subdirectory SCRIPT ways -D WAY=add_subdirectory)
lockstep_add_package_test(find_package SCRIPT ways INSTALLED -D WAY=find_package)
lockstep_add_package_test(from_source SCRIPT ways INSTALLED -D WAY=from_source)
lockstep_add_package_test(plain_compiler INSTALLED
                          -D "EIGEN=$<TARGET_PROPERTY:Eigen3::Eigen,INTERFACE_INCLUDE_DIRECTORIES>")

# --- package managers: cmake/packaging ---

foreach(program IN ITEMS pkg-config conan vcpkg)
  string(MAKE_C_IDENTIFIER ${program} name)
  string(TOUPPER ${name} upper)
  find_program(LOCKSTEP_${upper} ${program} HINTS "${PROJECT_SOURCE_DIR}/build/tools/bin") # see .ci/run
  mark_as_advanced(LOCKSTEP_${upper})
  if(LOCKSTEP_${upper})
    lockstep_add_package_test(${name} INSTALLED -D "${upper}=${LOCKSTEP_${upper}}")
  else()
    lockstep_add_skipped_test(package.${name} "there is no ${program}")
  endif()
endforeach()
