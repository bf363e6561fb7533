# Each header compiles alone. Its object file is built by the test (not by the target all), so that
# only what has changed is compiled again.

# They are compiled as with the library, and the .ipp of the same name behind them: so no
# other header's .ipp brings what they forget, and it takes less time. LOCKSTEP_INLINE keeps g++
# from making code of it. (tests/architecture/include_order.cmake sees to it that a program without
# the library may begin with any header.)

set(headers ${LOCKSTEP_HEADERS})
list(FILTER headers EXCLUDE REGEX "\\.ipp$")

# Most follow a precompiled header. (Which one is found when CMake runs; a new build folder, as in
# continuous integration, has the last word on a header that has lost an include.)
execute_process(
  COMMAND awk -v most=30 -f "${CMAKE_CURRENT_SOURCE_DIR}/architecture/precompiled.awk" ${headers}
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/include"
  OUTPUT_VARIABLE followers COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "\n$" "" followers "${followers}")
string(REPLACE "\n" ";" followers "${followers}")
foreach(pair IN LISTS followers)
  string(REPLACE " " ";" pair "${pair}")
  list(GET pair 0 header)
  list(GET pair 1 precompiled_of_${header})
endforeach()

set(all_precompiled "")
foreach(header IN LISTS headers)
  string(MAKE_C_IDENTIFIER "${header}" name)
  set(content "#include \"${header}\"\n")
  string(REGEX REPLACE "\\.hpp$" ".ipp" implementation "${header}")
  if(implementation IN_LIST LOCKSTEP_HEADERS)
    string(APPEND content "#include \"${implementation}\"\n")
  endif()
  file(CONFIGURE OUTPUT "headers/${name}.cpp" CONTENT "${content}" @ONLY)
  set(precompiled nothing)
  if(precompiled_of_${header})
    set(precompiled "${precompiled_of_${header}}")
  endif()
  list(APPEND all_precompiled "${precompiled}")
  list(APPEND sources_of_${precompiled} "${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp")
endforeach()

add_custom_target(lockstep_headers_alone)
list(REMOVE_DUPLICATES all_precompiled)
foreach(precompiled IN LISTS all_precompiled)
  string(MAKE_C_IDENTIFIER "headers after ${precompiled}" target)
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources_of_${precompiled}})
  target_link_libraries(${target} PRIVATE lockstep::headers lockstep_development)
  target_compile_options(${target} PRIVATE -O0 -g0)
  target_compile_definitions(${target} PRIVATE LOCKSTEP_COMPILED=1 LOCKSTEP_INLINE=inline)
  if(NOT precompiled STREQUAL "nothing")
    target_precompile_headers(${target} PRIVATE "<${precompiled}>")
  endif()
  add_dependencies(lockstep_headers_alone ${target})
endforeach()

lockstep_add_build_test(headers_compile_alone TARGET lockstep_headers_alone)
