# The documents keep their word. Every block of ```cpp, ```sh and ```cmake is tested, as the comment
# in the line before it says:
#
#   <!-- test: run -->              cpp: a program, compiled and run in an empty folder;
#                                   sh: run in the repository's root folder
#   <!-- test: run ARGUMENTS -->    cpp: the same with these arguments
#   <!-- test: compile -->          cpp: a program, compiled
#   <!-- test: fragment of NAME --> cpp: put into documents/NAME.cpp.in in place of @FRAGMENT@, and
#                                   compiled; cmake: the same with NAME.cmake.in, and configured
#   <!-- test: same as FILE -->     cpp, cmake: the text of that file of the repository
#   <!-- test: not run, REASON -->  sh: only the syntax is checked
#
# A block without such a comment is an error. The test docs.compile compiles all of them; what runs
# the first block of examples/how_to/tables.md, or looks at its syntax, is docs.examples.how_to.tables.1.

file(GLOB documents RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/*.md"
     "${PROJECT_SOURCE_DIR}/*/README.md" "${PROJECT_SOURCE_DIR}/examples/*/*.md" "${PROJECT_SOURCE_DIR}/cmake/*/README.md"
     "${PROJECT_SOURCE_DIR}/include/lockstep/*.md" "${PROJECT_SOURCE_DIR}/include/lockstep/*/README.md"
     "${PROJECT_SOURCE_DIR}/include/lockstep/*/REFERENCE.md" "${PROJECT_SOURCE_DIR}/include/lockstep/*/*/README.md")
set(documents_dir "${CMAKE_CURRENT_BINARY_DIR}/documents")

add_custom_target(lockstep_documents)
lockstep_add_build_test(docs.compile TARGET lockstep_documents)
set_tests_properties(docs.compile PROPERTIES FIXTURES_SETUP lockstep_documents)

function(lockstep_add_document_block document name language how code)
  set(file "${documents_dir}/${name}.${language}")
  set(test docs.${name})
  if(language STREQUAL "sh")
    file(CONFIGURE OUTPUT "${file}" CONTENT "set -euo pipefail\n@code@" @ONLY)
    if(how STREQUAL "run")
      lockstep_add_source_test(${test} COMMAND bash "${file}")
      set_tests_properties(${test} PROPERTIES WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" RESOURCE_LOCK build_folder)
    elseif(how MATCHES "^not run, ")
      lockstep_add_source_test(${test} COMMAND bash -n "${file}")
    else()
      message(SEND_ERROR "${document}: the sh block ${name} says no test that there is: '${how}'")
    endif()
    return()
  endif()

  set(runs OFF)
  if(language STREQUAL "cmake" AND how MATCHES "^fragment of ([a-z_]+)$")
    set(FRAGMENT "${code}")
    configure_file(documents/${CMAKE_MATCH_1}.cmake.in "${documents_dir}/${name}/CMakeLists.txt" @ONLY)
    lockstep_add_source_test(
      ${test} COMMAND "${CMAKE_COMMAND}" -S "${documents_dir}/${name}" -B "${documents_dir}/${name}/build"
                      "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
                      "-DFETCHCONTENT_SOURCE_DIR_LOCKSTEP=${PROJECT_SOURCE_DIR}" ${fetched_options})
    return()
  elseif(how MATCHES "^same as (.+)$")
    file(CONFIGURE OUTPUT "${file}" CONTENT "@code@" @ONLY)
    lockstep_add_source_test(${test} COMMAND "${CMAKE_COMMAND}" -E compare_files "${file}"
                                             "${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1}")
    return()
  elseif(language STREQUAL "cmake")
    message(SEND_ERROR "${document}: the cmake block ${name} says no test that there is: '${how}'")
    return()
  elseif(how MATCHES "^fragment of ([a-z_]+)$")
    set(FRAGMENT "${code}")
    configure_file(documents/${CMAKE_MATCH_1}.cpp.in "${file}" @ONLY)
  elseif(how MATCHES "^(run|compile)($| (.+)$)")
    if(CMAKE_MATCH_1 STREQUAL "run")
      set(runs ON)
      separate_arguments(arguments UNIX_COMMAND "${CMAKE_MATCH_3}")
    endif()
    file(CONFIGURE OUTPUT "${file}" CONTENT "@code@" @ONLY)
  else()
    message(SEND_ERROR "${document}: the cpp block ${name} says no test that there is: '${how}'")
    return()
  endif()
  string(MAKE_C_IDENTIFIER "docs_${name}" target)
  if(runs)
    add_executable(${target} EXCLUDE_FROM_ALL "${file}")
  else()
    add_library(${target} OBJECT EXCLUDE_FROM_ALL "${file}")
  endif()
  target_link_libraries(${target} PRIVATE lockstep_test_program $<TARGET_NAME_IF_EXISTS:lockstep::mpi>
                                          $<TARGET_NAME_IF_EXISTS:lockstep::images>)
  add_dependencies(lockstep_documents ${target})
  if(runs)
    lockstep_add_source_test(
      ${test} COMMAND "${CMAKE_COMMAND}" -D "FOLDER=${documents_dir}/${name}" -P
                          "${CMAKE_CURRENT_SOURCE_DIR}/documents/run.cmake" -- $<TARGET_FILE:${target}> ${arguments})
    set_tests_properties(${test} PROPERTIES FIXTURES_REQUIRED lockstep_documents)
  endif()
endfunction()

foreach(document IN LISTS documents)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${document}")
  string(REGEX REPLACE "/README\\.md$|\\.md$" "" slug "${document}") # examples, include.lockstep, readme
  string(TOLOWER "${slug}" slug)
  string(REPLACE "/" "." slug "${slug}")
  file(READ "${PROJECT_SOURCE_DIR}/${document}" rest)
  set(number 0)
  while(rest MATCHES "(<!-- test: ([^\n]*) -->\n)?```(cpp|sh|cmake)\n")
    math(EXPR number "${number} + 1")
    set(opening "${CMAKE_MATCH_0}")
    set(how "${CMAKE_MATCH_2}")
    set(language "${CMAKE_MATCH_3}")
    string(FIND "${rest}" "${opening}" begin)
    string(LENGTH "${opening}" length)
    math(EXPR begin "${begin} + ${length}")
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "${rest}" "\n```\n" end)
    if(end EQUAL -1)
      message(FATAL_ERROR "${document}: the ${language} block ${number} has no end")
    endif()
    math(EXPR end "${end} + 1")
    string(SUBSTRING "${rest}" 0 ${end} code)
    string(SUBSTRING "${rest}" ${end} -1 rest)
    lockstep_add_document_block("${document}" ${slug}.${number} ${language} "${how}" "${code}")
  endwhile()
endforeach()

# Each row of the table of what happens when something dies names its test.
lockstep_add_source_test(
  docs.promises COMMAND "${CMAKE_COMMAND}" -D "ROOT=${PROJECT_SOURCE_DIR}" -D DOCUMENT=examples/cluster/failures.md -P
                        "${CMAKE_CURRENT_SOURCE_DIR}/documents/promises.cmake")

# Links lead somewhere, lines and documents are as long as they may be.
lockstep_add_source_test(docs.form COMMAND awk -f "${CMAKE_CURRENT_SOURCE_DIR}/documents/form.awk" ${documents})
set_tests_properties(docs.form PROPERTIES WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")

# The site can be made without a warning, its links lead somewhere, its text shows no marks, and a
# browser finds no fault. Where Doxygen is missing, the target says what to install.
set(site "${PROJECT_BINARY_DIR}/docs/html")
lockstep_add_build_test(docs.site TARGET docs)
set_tests_properties(docs.site PROPERTIES FIXTURES_SETUP lockstep_site SKIP_REGULAR_EXPRESSION "PATH[ \n]+has[ \n]+none")
foreach(part IN ITEMS links text)
  lockstep_add_source_test(
    docs.site.${part} COMMAND sh -c "cd \"$1\" || { echo SKIPPED: there is no site; exit 77; }; ls *.html | awk -f \"$0\""
                              "${CMAKE_CURRENT_SOURCE_DIR}/documents/site_${part}.awk" "${site}")
endforeach()
lockstep_add_source_test(
  docs.site.browser
  COMMAND
    sh -c
    "test -d \"$1\" || { echo SKIPPED: there is no site; exit 77; }
    command -v python3 || { echo 'SKIPPED: there is no python3 (Debian: apt-get install python3)'; exit 77; }
    exec python3 \"$0\" \"$1\"" "${CMAKE_CURRENT_SOURCE_DIR}/documents/site_browser.py" "${site}")
set_tests_properties(docs.site.links docs.site.text docs.site.browser PROPERTIES FIXTURES_REQUIRED lockstep_site RESOURCE_LOCK build_folder)
lockstep_add_source_test(
  docs.site.without_doxygen COMMAND "${CMAKE_COMMAND}" -E env PATH=/nowhere "${CMAKE_COMMAND}" -D GOAL=docs -P
                                    "${PROJECT_SOURCE_DIR}/cmake/docs/make.cmake")
set_tests_properties(docs.site.without_doxygen PROPERTIES PASS_REGULAR_EXPRESSION "apt-get install[ \n]*doxygen")

# The pictures of the documents.
set(pictures_dir "${PROJECT_SOURCE_DIR}/cmake/docs/pictures")
add_custom_target(pictures)
foreach(picture IN ITEMS workers ring arena history rooms)
  set(of history.csv)
  if(picture STREQUAL "rooms")
    set(of "${CMAKE_CURRENT_SOURCE_DIR}/architecture/folders.txt")
  endif()
  set(draw awk -v picture=${picture} -f draw.awk "${of}")
  add_custom_command(
    TARGET pictures POST_BUILD
    COMMAND ${draw} > ${picture}.svg
    WORKING_DIRECTORY "${pictures_dir}"
    VERBATIM)
  lockstep_add_source_test(docs.pictures.${picture} COMMAND sh -c "\"$@\" | cmp - \"$0\"" ${picture}.svg ${draw})
  set_tests_properties(docs.pictures.${picture} PROPERTIES WORKING_DIRECTORY "${pictures_dir}")
endforeach()
