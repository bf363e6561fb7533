# For tests that run a compiler by themselves: the flags of a program that links lockstep, one a
# line, so that the file is a response file for compilers and the compile_flags.txt that clang's
# tools look for.

set(LOCKSTEP_FLAGS_DIR "${CMAKE_CURRENT_BINARY_DIR}/flags")
set(LOCKSTEP_FLAGS_FILE "${LOCKSTEP_FLAGS_DIR}/compile_flags.txt")

set(include "${PROJECT_SOURCE_DIR}/include")
set(others "$<TARGET_PROPERTY:lockstep_headers,INTERFACE_INCLUDE_DIRECTORIES>")
set(others "$<FILTER:${others},EXCLUDE,^(${include}|/usr/include|)$>") # -isystem /usr/include breaks #include_next
set(definitions "$<TARGET_PROPERTY:lockstep_headers,INTERFACE_COMPILE_DEFINITIONS>")
file(
  GENERATE
  OUTPUT "${LOCKSTEP_FLAGS_FILE}"
  CONTENT
    "-std=c++20
-I${include}
-I${CMAKE_CURRENT_SOURCE_DIR}
$<$<BOOL:${others}>:-isystem$<JOIN:$<REMOVE_DUPLICATES:${others}>,\n-isystem>\n>$<$<BOOL:${definitions}>:-D$<JOIN:$<REMOVE_DUPLICATES:${definitions}>,\n-D>\n>")
