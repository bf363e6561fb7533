# Translation units that include everything link together, also with one that was compiled for this very machine.

add_executable(test_link link/main.cpp link/other.cpp link/native.cpp)
target_include_directories(test_link PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(test_link PRIVATE lockstep::lockstep lockstep_development)
set_source_files_properties(link/native.cpp PROPERTIES COMPILE_OPTIONS -march=native)
add_test(NAME test_link COMMAND test_link)
set_tests_properties(test_link PROPERTIES LABELS quick TIMEOUT 60)
