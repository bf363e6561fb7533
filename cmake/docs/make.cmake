# cmake -D SOURCE=DIR -D OUTPUT=DIR -D VERSION=X.Y.Z -D BRIEF=TEXT -D GOAL=docs|docs_archive -P make.cmake
#
# Makes the site in OUTPUT/html, and for docs_archive packs it. See README.md.

cmake_minimum_required(VERSION 3.24)

find_program(doxygen doxygen)
if(NOT doxygen)
  message(FATAL_ERROR "lockstep: ${GOAL} needs Doxygen 1.9.4 or newer, and PATH has none: install it (Debian, Ubuntu: "
                      "apt-get install doxygen; macOS: brew install doxygen), then build ${GOAL} again")
endif()
execute_process(COMMAND "${doxygen}" --version OUTPUT_VARIABLE doxygen_version OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX REPLACE " .*" "" doxygen_version "${doxygen_version}")
if(doxygen_version VERSION_LESS 1.9.4)
  message(FATAL_ERROR "lockstep: ${GOAL} needs Doxygen 1.9.4 or newer, and ${doxygen} is ${doxygen_version}")
endif()

set(include "${SOURCE}/include/lockstep")
set(input "${SOURCE}/cmake/docs/start.dox" "${OUTPUT}/made.dox")

# The documents: what `git ls-files '*.md'` lists.
file(GLOB documents "${SOURCE}/*.md" "${SOURCE}/benchmarks/README.md" "${SOURCE}/examples/README.md"
     "${SOURCE}/examples/*/*.md" "${SOURCE}/cmake/*/README.md" "${include}/*.md" "${include}/*/*.md" "${include}/*/*/*.md")
list(APPEND input ${documents})

# The headers, but for those that declare nothing outside of a `detail`.
file(GLOB_RECURSE headers "${include}/*.hpp")
foreach(header IN LISTS headers)
  file(STRINGS "${header}" public REGEX "^namespace lockstep { inline namespace LOCKSTEP_ABI {( namespace [ac-z].*| namespace de[^t].*)?$")
  file(STRINGS "${header}" opens REGEX "^namespace lockstep" LIMIT_COUNT 1)
  if(NOT header MATCHES "/detail/" AND (public OR NOT opens))
    list(APPEND input "${header}")
  endif()
endforeach()

# A group for each room, and a page for each example.
set(made "")
file(GLOB readmes RELATIVE "${include}" "${include}/*/README.md" "${include}/*/*/README.md")
list(REMOVE_ITEM readmes src/README.md)
foreach(readme IN LISTS readmes)
  get_filename_component(room "${readme}" DIRECTORY)
  file(STRINGS "${include}/${readme}" title LIMIT_COUNT 1)
  string(SUBSTRING "${title}" 2 -1 title)
  string(REPLACE "/" "_" name "${room}")
  string(APPEND made "/** @defgroup in_${name} ${title}\n")
  if(room MATCHES "^(.*)/")
    string(APPEND made "@ingroup in_${CMAKE_MATCH_1}\n")
  endif()
  string(APPEND made "What `lockstep/${room}` declares. @ref room_${name} \"How it works, and how to add to it\"")
  if(EXISTS "${include}/${room}/REFERENCE.md")
    string(APPEND made "; @ref reference_${name} \"each name with its options and a line of use\"")
  endif()
  string(REGEX REPLACE "^[^:]*: " "" brief "${title}")
  string(APPEND made ". */\n/** @dir lockstep/${room}\n@brief ${brief}. */\n")
endforeach()
file(GLOB examples RELATIVE "${SOURCE}/examples" "${SOURCE}/examples/*.cpp")
foreach(example IN LISTS examples)
  string(APPEND made "/** @example ${example} */\n")
endforeach()
file(WRITE "${OUTPUT}/made.dox" "${made}")

file(GLOB pictures "${SOURCE}/cmake/docs/pictures/*.svg" "${SOURCE}/cmake/docs/pictures/*.png")
list(JOIN input "\" \\\n    \"" INPUT)
list(JOIN pictures "\" \\\n    \"" PICTURES)
set(NEWER "")
if(doxygen_version VERSION_GREATER_EQUAL 1.9.5)
  set(NEWER "HTML_COLORSTYLE = LIGHT")
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in" "${OUTPUT}/Doxyfile" @ONLY)
file(REMOVE_RECURSE "${OUTPUT}/html" "${OUTPUT}/files.txt")
execute_process(COMMAND "${doxygen}" "${OUTPUT}/Doxyfile" RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "lockstep: ${doxygen} ${doxygen_version} has failed or warned: see above")
endif()

# Files that are no pages and to which pages link (see pages.awk).
file(STRINGS "${OUTPUT}/files.txt" files)
list(REMOVE_DUPLICATES files)
foreach(file IN LISTS files)
  configure_file("${SOURCE}/${file}" "${OUTPUT}/html/files/${file}.txt" COPYONLY)
endforeach()
message("The site: ${OUTPUT}/html/index.html (Doxygen ${doxygen_version})")

if(GOAL STREQUAL "docs_archive")
  set(name lockstep-docs-${VERSION})
  file(REMOVE_RECURSE "${OUTPUT}/${name}")
  file(RENAME "${OUTPUT}/html" "${OUTPUT}/${name}")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E tar czf ${name}.tar.gz ${name} WORKING_DIRECTORY "${OUTPUT}" RESULT_VARIABLE result)
  file(RENAME "${OUTPUT}/${name}" "${OUTPUT}/html")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "lockstep: cannot write ${OUTPUT}/${name}.tar.gz")
  endif()
  message("Packed: ${OUTPUT}/${name}.tar.gz")
endif()
