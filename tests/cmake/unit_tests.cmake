# One doctest program per folder: tests/<folder>/**/*.test.cpp makes test_<folder>, tests/*.test.cpp
# makes test_lockstep.
#
# Test cases in a TEST_SUITE whose name ends in "[full]" run under the ctest label full, all others
# under quick, or full where their folder is no quick one. Those in a suite whose name ends in
# "[needs python]", say, may be skipped: they are a ctest test of their own, test_<folder>.python,
# which ctest then lists as skipped (see support/skip.hpp). With "[full] [needs python]" its label is
# full.

# What tells a new user, in minutes, that the library works on this machine. The target
# lockstep_quick_tests builds them.
set(quick_folders core kernels layers network losses metrics optimizers data step strategies model)
add_custom_target(lockstep_quick_tests)

# Folders whose tests compile kernels for themselves, and compare their bits with the library's.
set(optimised_folders step)

# How many ctest tests a folder's program is: of those that mostly wait (for time limits, for
# processes that hang or die), several run at a time.
set(shards_of_test_cluster 3)
set(shards_of_test_collectives 6)
set(shards_of_test_integration 7)
set(shards_of_test_extra 3)

# lockstep_add_test_main(<suffix> <target> <compile option>...): lockstep_test_main<suffix>, doctest's
# main and what tests are compiled with besides those of the target; lockstep_test_headers<suffix>,
# what nearly all tests include, parsed once. (That each header compiles alone is a test of its own.)
file(CONFIGURE OUTPUT precompiled.cpp CONTENT "")
function(lockstep_add_test_main suffix target)
  add_library(lockstep_test_main${suffix} OBJECT EXCLUDE_FROM_ALL main.cpp)
  target_link_libraries(lockstep_test_main${suffix} PUBLIC doctest::doctest ${target})
  target_include_directories(lockstep_test_main${suffix} PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}") # "support/..."
  # Calls in place of code at each assertion: an eighth of the time to compile. (An exception in an
  # assertion ends its test case.)
  target_compile_definitions(lockstep_test_main${suffix} PUBLIC DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
  target_compile_options(lockstep_test_main${suffix} PUBLIC ${ARGN})

  add_library(lockstep_test_headers${suffix} OBJECT EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp")
  target_link_libraries(lockstep_test_headers${suffix} PRIVATE lockstep_test_main${suffix})
  target_precompile_headers(lockstep_test_headers${suffix} PRIVATE <doctest/doctest.h> <lockstep/local.hpp>)
endfunction()
lockstep_add_test_main("" lockstep_test_program)
# (g++ multiplies and adds in one step with the second.)
lockstep_add_test_main(_optimised lockstep_test_links "$<$<CONFIG:Release>:-O1>"
                       "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-fexpensive-optimizations>")

# A model that tests of several folders train, compiled once. (Of the kernels that it and a test
# compile, the linker keeps one: let it be one with the library's bits.)
add_library(lockstep_test_trainer STATIC EXCLUDE_FROM_ALL support/tiny_trainer.cpp)
target_link_libraries(lockstep_test_trainer PUBLIC doctest::doctest lockstep_test_links)
target_include_directories(lockstep_test_trainer PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")

# lockstep_add_sharded_test(<name> <program> <filter of suites> <source files>...): sets `tests` to
# the names of its ctest tests. Where there are shards, these are <name>-1, <name>-2, ..., each of
# some of the files; the last one has what no other has.
function(lockstep_add_sharded_test name program suites)
  set(shards 1)
  if(DEFINED shards_of_${program})
    set(shards ${shards_of_${program}})
  endif()
  list(LENGTH ARGN files)
  if(files LESS shards)
    set(shards ${files})
  endif()
  if(shards LESS 2)
    add_test(NAME ${name} COMMAND ${program} ${suites})
    set(tests
        ${name}
        PARENT_SCOPE)
    return()
  endif()
  set(place 0)
  set(others "")
  foreach(file IN LISTS ARGN)
    math(EXPR shard "${place} % ${shards} + 1")
    math(EXPR place "${place} + 1")
    list(APPEND files_of_${shard} "*/tests/${file}")
    if(NOT shard EQUAL shards)
      list(APPEND others "*/tests/${file}")
    endif()
  endforeach()
  set(names "")
  foreach(shard RANGE 1 ${shards})
    set(filter "--source-file=${files_of_${shard}}")
    if(shard EQUAL shards)
      set(filter "--source-file-exclude=${others}")
    endif()
    string(REPLACE ";" "," filter "${filter}")
    add_test(NAME ${name}-${shard} COMMAND ${program} ${suites} "${filter}")
    list(APPEND names ${name}-${shard})
  endforeach()
  # (Of LOCKSTEP_PROCESSORS_OF_CORE.)
  set_tests_properties(${names} PROPERTIES PROCESSORS 1)
  set(tests
      ${names}
      PARENT_SCOPE)
endfunction()

function(lockstep_add_unit_tests name)
  string(REPLACE "test_" "" folder "${name}")
  set(suffix "")
  if(folder IN_LIST optimised_folders)
    set(suffix _optimised)
  endif()
  set(usual_label full)
  if(folder IN_LIST quick_folders)
    set(usual_label quick)
    add_dependencies(lockstep_quick_tests ${name})
  endif()
  # What stands in the sources decides which tests there are.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  set(sources "")
  set(full_sources "")
  set(needs "")
  set(has_trainer OFF)
  foreach(source IN LISTS ARGN)
    file(READ "${source}" text)
    if(NOT text MATCHES "${LOCKSTEP_TEST_ONLY}")
      continue()
    endif()
    list(APPEND sources "${source}")
    if(text MATCHES "\\[full\\]\"")
      list(APPEND full_sources "${source}")
    endif()
    string(REGEX MATCHALL "([[]full[]] )?[[]needs [a-z]+[]]\"" marks "${text}")
    list(APPEND needs ${marks})
    if(text MATCHES "support/tiny_trainer\\.hpp")
      set(has_trainer ON)
    endif()
  endforeach()
  lockstep_join_tests(${name} ${sources})
  add_executable(${name} ${joined})
  target_link_libraries(${name} PRIVATE lockstep_test_main${suffix})
  if(has_trainer)
    target_link_libraries(${name} PRIVATE lockstep_test_trainer)
  endif()
  target_precompile_headers(${name} REUSE_FROM lockstep_test_headers${suffix})

  lockstep_add_sharded_test(${name} ${name} "--test-suite-exclude=*[full],*[needs *]" ${sources})
  set_tests_properties(${tests} PROPERTIES LABELS ${usual_label} TIMEOUT 900)
  set(all_tests ${tests})
  if(full_sources)
    lockstep_add_sharded_test(${name}.full ${name} "--test-suite=*[full]" ${full_sources})
    set_tests_properties(${tests} PROPERTIES LABELS full TIMEOUT 1200)
    list(APPEND all_tests ${tests})
  endif()
  set(tests ${all_tests})
  list(REMOVE_DUPLICATES needs)
  foreach(mark IN LISTS needs)
    string(REGEX REPLACE "^.*needs ([a-z]+).*$" "\\1" need "${mark}")
    add_test(NAME ${name}.${need} COMMAND ${name} "--test-suite=*[needs ${need}]")
    set(label ${usual_label})
    if(mark MATCHES "full")
      set(label full)
    endif()
    set_tests_properties(${name}.${need} PROPERTIES LABELS ${label} TIMEOUT 1200 SKIP_RETURN_CODE 77)
    list(APPEND tests ${name}.${need})
  endforeach()
  # Where the programs of examples/ are, for the tests that run them, and the sources, for those
  # that read other files.
  set(environment "LOCKSTEP_EXAMPLES_DIR=${PROJECT_BINARY_DIR}/examples" "LOCKSTEP_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
  if(LOCKSTEP_MNIST_DIR)
    list(APPEND environment "LOCKSTEP_MNIST_DIR=${LOCKSTEP_MNIST_DIR}")
  endif()
  set_tests_properties(${tests} PROPERTIES ENVIRONMENT "${environment}")
endfunction()

file(GLOB sources CONFIGURE_DEPENDS "*.test.cpp")
if(sources)
  lockstep_add_unit_tests(test_lockstep ${sources})
endif()

file(
  GLOB_RECURSE sources
  RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}"
  CONFIGURE_DEPENDS "*.test.cpp")
list(FILTER sources INCLUDE REGEX "/")
set(folders ${sources})
list(TRANSFORM folders REPLACE "/.*$" "")
list(REMOVE_DUPLICATES folders)
foreach(name IN LISTS folders)
  set(folder "${CMAKE_CURRENT_SOURCE_DIR}/${name}")
  set(folder_sources ${sources})
  list(FILTER folder_sources INCLUDE REGEX "^${name}/")
  lockstep_add_unit_tests(test_${name} ${folder_sources})

  # tests/<folder>/programs/<program>.cpp are programs that the folder's tests start
  # (support/process.hpp's test_program).
  file(GLOB programs CONFIGURE_DEPENDS "${folder}/programs/*.cpp")
  foreach(source IN LISTS programs)
    cmake_path(GET source STEM program)
    add_executable(${name}_${program} "${source}")
    target_link_libraries(${name}_${program} PRIVATE lockstep_test_program)
    target_include_directories(${name}_${program} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}") # "support/..."
    add_dependencies(test_${name} ${name}_${program})
  endforeach()
endforeach()

# The tests that start programs of examples/ (support/process.hpp's example).
get_property(examples DIRECTORY "${PROJECT_SOURCE_DIR}/examples" PROPERTY BUILDSYSTEM_TARGETS)
add_dependencies(test_integration ${examples})

# The decoders of images are not in the precompiled header, nor in the other tests.
if(TARGET lockstep::images AND TARGET test_datasets)
  get_target_property(definitions lockstep::images INTERFACE_COMPILE_DEFINITIONS)
  set_source_files_properties(datasets/image_folder.test.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_DEFINITIONS
                                                                                                  "${definitions}")
  target_link_libraries(test_datasets PRIVATE $<TARGET_NAME_IF_EXISTS:PNG::PNG> $<TARGET_NAME_IF_EXISTS:JPEG::JPEG>)
endif()
# So is HDF5.
if(TARGET lockstep::hdf5)
  get_target_property(definitions lockstep::hdf5 INTERFACE_COMPILE_DEFINITIONS)
  set(hdf5_tests checkpoint/hdf5.test.cpp saving/keras_optimizer.test.cpp saving/keras_weights.test.cpp)
  set_source_files_properties(${hdf5_tests} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_DEFINITIONS "${definitions}")
  if(NOT HDF5_INCLUDE_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    set_source_files_properties(${hdf5_tests} PROPERTIES COMPILE_OPTIONS "-isystem;${HDF5_INCLUDE_DIR}")
  endif()
  foreach(target IN ITEMS test_checkpoint test_saving)
    if(TARGET ${target})
      target_link_libraries(${target} PRIVATE "${HDF5_LIBRARY}")
    endif()
  endforeach()
endif()
