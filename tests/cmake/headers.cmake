# Each header compiles alone. Its object file is built by the test (not by the target all), so that
# only what has changed is compiled again.

# An .ipp is part of the .hpp of its name, which includes it.

set(sources "")
set(headers ${LOCKSTEP_HEADERS})
list(FILTER headers EXCLUDE REGEX "\\.ipp$")
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER "${header}" name)
  file(CONFIGURE OUTPUT "headers/${name}.cpp" CONTENT "#include \"${header}\"\n")
  list(APPEND sources "${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp")
endforeach()

add_library(lockstep_headers OBJECT EXCLUDE_FROM_ALL ${sources})
target_link_libraries(lockstep_headers PRIVATE lockstep::lockstep lockstep_development)
target_compile_options(lockstep_headers PRIVATE -O0 -g0)

lockstep_add_build_test(headers_compile_alone LABEL full TARGET lockstep_headers)
