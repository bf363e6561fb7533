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
