# Translation units that include everything link together, also with one that was compiled for this
# very machine.

add_executable(test_link EXCLUDE_FROM_ALL link/main.cpp link/other.cpp link/native.cpp)
target_include_directories(test_link PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(test_link PRIVATE lockstep::headers lockstep_development)
# Without optimisation no function is inlined: each is there to be defined twice.
target_compile_options(test_link PRIVATE -O0)
set_source_files_properties(link/native.cpp PROPERTIES COMPILE_OPTIONS -march=native)

set_target_properties(test_link PROPERTIES CXX_COMPILER_LAUNCHER "") # -march=native is not the same everywhere

lockstep_add_build_test(link TARGET test_link)
set_tests_properties(link PROPERTIES FIXTURES_SETUP test_link)
lockstep_add_source_test(link.run COMMAND test_link)
set_tests_properties(link.run PROPERTIES FIXTURES_REQUIRED test_link)

# The benchmarks, which all does not build, compile.
if(TARGET lockstep_benchmarks)
  lockstep_add_build_test(benchmarks TARGET lockstep_benchmarks)
endif()

# Without the calls that only Linux has, as on macOS: what uses the system still works, and two
# workers train to the same losses.
add_executable(test_without_linux EXCLUDE_FROM_ALL main.cpp core/system.test.cpp core/buffer.test.cpp
  core/thread.test.cpp net/descriptor.test.cpp net/listener.test.cpp)
target_include_directories(test_without_linux PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
add_executable(workers_without_linux EXCLUDE_FROM_ALL link/workers.cpp)
foreach(target test_without_linux workers_without_linux)
  target_link_libraries(${target} PRIVATE lockstep::headers lockstep_development)
  target_compile_definitions(${target} PRIVATE LOCKSTEP_LINUX=0)
endforeach()
add_executable(workers_of_linux EXCLUDE_FROM_ALL link/workers.cpp)
target_link_libraries(workers_of_linux PRIVATE lockstep::lockstep lockstep_development)

add_custom_target(without_linux)
add_dependencies(without_linux test_without_linux workers_without_linux workers_of_linux)
lockstep_add_build_test(without_linux TARGET without_linux)
lockstep_add_source_test(without_linux.run
  COMMAND test_without_linux "--test-suite-exclude=*hugepages*")
lockstep_add_source_test(without_linux.workers
  COMMAND sh -ec "rm -rf backup; \"$0\" --workers 2 | sort > a.txt; rm -rf backup
\"$1\" --workers 2 | sort > b.txt; rm -rf backup; grep -q loss a.txt; diff a.txt b.txt"
    "$<TARGET_FILE:workers_of_linux>" "$<TARGET_FILE:workers_without_linux>")
file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/without_linux")
set_tests_properties(without_linux PROPERTIES FIXTURES_SETUP without_linux)
set_tests_properties(without_linux.run without_linux.workers PROPERTIES
  FIXTURES_REQUIRED without_linux PROCESSORS 2
  WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/without_linux")
