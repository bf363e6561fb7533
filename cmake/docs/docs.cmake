# The target `docs`, where Doxygen is installed: the API reference, from the comments in the
# headers, in <build>/docs/html. A warning of Doxygen is an error.

find_program(LOCKSTEP_DOXYGEN doxygen)
mark_as_advanced(LOCKSTEP_DOXYGEN)
if(LOCKSTEP_DOXYGEN)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in" "${PROJECT_BINARY_DIR}/docs/Doxyfile" @ONLY)
  add_custom_target(
    docs
    COMMAND "${LOCKSTEP_DOXYGEN}" "${PROJECT_BINARY_DIR}/docs/Doxyfile"
    COMMENT "API reference: ${PROJECT_BINARY_DIR}/docs/html/index.html"
    VERBATIM)
endif()
