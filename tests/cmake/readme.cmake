# Every ```cpp and ```sh block of README.md is tested, as the comment in the line before it says:
#
#   <!-- test: run -->                   cpp: a program, compiled and run; sh: run in the repository's root folder
#   <!-- test: compile -->               cpp: a program, compiled
#   <!-- test: fragment of NAME -->      cpp: put into readme/NAME.cpp.in in place of @FRAGMENT@, and compiled
#   <!-- test: same as FILE -->          cpp: the text of that file of the repository
#   <!-- test: not run, REASON -->       sh: only the syntax is checked
#
# A block without such a comment is an error.

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/README.md")
file(READ "${PROJECT_SOURCE_DIR}/README.md" rest)
set(readme_dir "${CMAKE_CURRENT_BINARY_DIR}/readme")

function(lockstep_add_readme_block number language how code)
  set(name readme.${number}.${language})
  set(file "${readme_dir}/${number}.${language}")
  if(language STREQUAL "sh")
    file(CONFIGURE OUTPUT "${file}" CONTENT "set -euo pipefail\n@code@" @ONLY)
    if(how STREQUAL "run")
      lockstep_add_source_test(${name} LABEL full COMMAND bash "${file}")
      set_tests_properties(${name} PROPERTIES WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" RESOURCE_LOCK build_folder)
    elseif(how MATCHES "^not run, ")
      lockstep_add_source_test(${name} COMMAND bash -n "${file}")
    else()
      message(SEND_ERROR "README.md: ```sh block ${number}: unknown test: ${how}")
    endif()
    return()
  endif()

  if(how MATCHES "^same as (.+)$")
    file(CONFIGURE OUTPUT "${file}" CONTENT "@code@" @ONLY)
    lockstep_add_source_test(${name} COMMAND "${CMAKE_COMMAND}" -E compare_files "${file}"
                                             "${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1}")
    return()
  elseif(how MATCHES "^fragment of ([a-z_]+)$")
    set(FRAGMENT "${code}")
    configure_file(readme/${CMAKE_MATCH_1}.cpp.in "${file}" @ONLY)
  elseif(how MATCHES "^(run|compile)$")
    file(CONFIGURE OUTPUT "${file}" CONTENT "@code@" @ONLY)
  else()
    message(SEND_ERROR "README.md: ```cpp block ${number}: unknown test: ${how}")
    return()
  endif()
  set(target readme_${number})
  if(how STREQUAL "run")
    add_executable(${target} EXCLUDE_FROM_ALL "${file}")
  else()
    add_library(${target} OBJECT EXCLUDE_FROM_ALL "${file}")
  endif()
  target_link_libraries(${target} PRIVATE lockstep::lockstep lockstep_development $<TARGET_NAME_IF_EXISTS:lockstep::mpi>)
  lockstep_add_build_test(${name} TARGET ${target})
  if(how STREQUAL "run")
    set_tests_properties(${name} PROPERTIES FIXTURES_SETUP ${target})
    lockstep_add_source_test(${name}.run COMMAND ${target})
    set_tests_properties(${name}.run PROPERTIES FIXTURES_REQUIRED ${target})
  endif()
endfunction()

set(number 0)
while(rest MATCHES "(<!-- test: ([^\n]*) -->\n)?```(cpp|sh)\n([^`]*)```\n")
  math(EXPR number "${number} + 1")
  set(block "${CMAKE_MATCH_0}")
  set(how "${CMAKE_MATCH_2}")
  set(language "${CMAKE_MATCH_3}")
  lockstep_add_readme_block(${number} ${language} "${how}" "${CMAKE_MATCH_4}")
  string(FIND "${rest}" "${block}" begin)
  string(LENGTH "${block}" length)
  math(EXPR begin "${begin} + ${length}")
  string(SUBSTRING "${rest}" ${begin} -1 rest)
endwhile()

# Each row of the table of promises names its test.
lockstep_add_source_test(readme.promises COMMAND "${CMAKE_COMMAND}" -D "ROOT=${PROJECT_SOURCE_DIR}" -P
                                                 "${CMAKE_CURRENT_SOURCE_DIR}/readme/promises.cmake")
