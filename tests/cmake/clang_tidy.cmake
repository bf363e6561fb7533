# clang-tidy finds nothing in the headers.

find_program(LOCKSTEP_CLANG_TIDY clang-tidy)
mark_as_advanced(LOCKSTEP_CLANG_TIDY)
if(LOCKSTEP_CLANG_TIDY)
  lockstep_add_source_test(
    clang_tidy
    COMMAND "${LOCKSTEP_CLANG_TIDY}" --quiet -p "${LOCKSTEP_FLAGS_DIR}" --header-filter=include/lockstep/
            --warnings-as-errors=* "${CMAKE_CURRENT_SOURCE_DIR}/link/main.cpp")
else()
  lockstep_add_skipped_test(clang_tidy "there is no clang-tidy")
endif()
