# Each header compiles alone. Its object file is built by the test (not by the target all), so that
# only what has changed is compiled again.

# An .ipp is part of the .hpp of its name, which includes it. Headers without one are compiled as
# with lockstep::compiled: then no other header's .ipp brings what they forget, and it takes less
# time.

set(headers ${LOCKSTEP_HEADERS})
list(FILTER headers EXCLUDE REGEX "\\.ipp$")
set(whole "")
set(declarations "")
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER "${header}" name)
  file(CONFIGURE OUTPUT "headers/${name}.cpp" CONTENT "#include \"${header}\"\n")
  string(REGEX REPLACE "\\.hpp$" ".ipp" implementation "${header}")
  if(implementation IN_LIST LOCKSTEP_HEADERS)
    list(APPEND whole "${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp")
  else()
    list(APPEND declarations "${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp")
  endif()
endforeach()

foreach(part IN ITEMS whole declarations)
  add_library(lockstep_headers_${part} OBJECT EXCLUDE_FROM_ALL ${${part}})
  target_link_libraries(lockstep_headers_${part} PRIVATE lockstep::lockstep lockstep_development)
  target_compile_options(lockstep_headers_${part} PRIVATE -O0 -g0)
endforeach()
target_compile_definitions(lockstep_headers_declarations PRIVATE LOCKSTEP_COMPILED=1)
add_custom_target(lockstep_headers DEPENDS lockstep_headers_whole lockstep_headers_declarations)

lockstep_add_build_test(headers_compile_alone LABEL full TARGET lockstep_headers)
