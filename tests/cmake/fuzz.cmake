# tests/fuzz/fuzz_<name>.cpp are libFuzzer targets, where the compiler has it (clang++);
# tests/fuzz/corpus/<name>/ are inputs to start from. Each runs for LOCKSTEP_FUZZ_SECONDS. To go on
# from what a run has found: build/release-clang/tests/fuzz_<name>
# build/release-clang/tests/fuzz/<name>

set(LOCKSTEP_FUZZ_SECONDS 10 CACHE STRING "How long the tests run each fuzz target")

include(CheckCXXSourceCompiles)
set(fuzz_flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
list(JOIN fuzz_flags " " CMAKE_REQUIRED_FLAGS)
check_cxx_source_compiles(
  "#include <cstddef>
   #include <cstdint>
   extern \"C\" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t) { return 0; }"
  LOCKSTEP_HAS_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT LOCKSTEP_HAS_LIBFUZZER)
  lockstep_add_skipped_test(fuzz "the compiler has no libFuzzer; clang++ has, as in the preset asan-clang")
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS "fuzz/fuzz_*.cpp")
foreach(source IN LISTS sources)
  cmake_path(GET source STEM target)
  string(REPLACE "fuzz_" "" name "${target}")
  add_executable(${target} "${source}")
  target_link_libraries(${target} PRIVATE lockstep::headers lockstep_development)
  target_compile_options(${target} PRIVATE ${fuzz_flags} -O1 -g1)
  target_link_options(${target} PRIVATE ${fuzz_flags})

  set(found "${CMAKE_CURRENT_BINARY_DIR}/fuzz/${name}") # new inputs are put here
  file(MAKE_DIRECTORY "${found}")
  file(GLOB seeds LIST_DIRECTORIES ON "fuzz/corpus/${name}")
  add_test(NAME ${target} COMMAND ${target} -max_total_time=${LOCKSTEP_FUZZ_SECONDS} -timeout=20 -rss_limit_mb=2048
                                  "-artifact_prefix=${found}." "${found}" ${seeds})
  math(EXPR timeout "${LOCKSTEP_FUZZ_SECONDS} + 300")
  set_tests_properties(${target} PROPERTIES LABELS full TIMEOUT ${timeout})
endforeach()
