# Each header compiles alone. Its object file is built by the test (not by the target all), so that
# only what has changed is compiled again.

# They are compiled as with lockstep::compiled, and the .ipp of the same name behind them: so no
# other header's .ipp brings what they forget, and it takes less time. LOCKSTEP_INLINE keeps g++
# from making code of it. (tests/architecture/include_order.cmake sees to it that a program without
# the library may begin with any header.)

set(headers ${LOCKSTEP_HEADERS})
list(FILTER headers EXCLUDE REGEX "\\.ipp$")
set(sources "")
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER "${header}" name)
  set(content "#include \"${header}\"\n")
  string(REGEX REPLACE "\\.hpp$" ".ipp" implementation "${header}")
  if(implementation IN_LIST LOCKSTEP_HEADERS)
    string(APPEND content "#include \"${implementation}\"\n")
  endif()
  file(CONFIGURE OUTPUT "headers/${name}.cpp" CONTENT "${content}" @ONLY)
  list(APPEND sources "${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp")
endforeach()

add_library(lockstep_headers OBJECT EXCLUDE_FROM_ALL ${sources})
target_link_libraries(lockstep_headers PRIVATE lockstep::lockstep lockstep_development)
target_compile_options(lockstep_headers PRIVATE -O0 -g0)
target_compile_definitions(lockstep_headers PRIVATE LOCKSTEP_COMPILED=1 LOCKSTEP_INLINE=inline)

lockstep_add_build_test(headers_compile_alone LABEL full TARGET lockstep_headers)
