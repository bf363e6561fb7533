# The pages of the reference, a REFERENCE.md in each room whose parts programs name, are made of the
# headers' comments. The target `reference` writes them; tests fail where one is stale, where it
# lacks a name, and where a line of use does not compile. See documents/reference.awk.

set(reference_pages callbacks data datasets layers losses metrics model optimizers saving strategies training)
set(reference_make awk -f "${CMAKE_CURRENT_SOURCE_DIR}/documents/reference.awk" -v)
set(reference_list "${CMAKE_CURRENT_SOURCE_DIR}/documents/reference.txt")
set(reference_rooms "${PROJECT_SOURCE_DIR}/include/lockstep")
set(reference_uses "${CMAKE_CURRENT_BINARY_DIR}/documents/reference.cpp")

set(write "")
set(write_uses "")
foreach(page IN LISTS reference_pages)
  list(APPEND write COMMAND ${reference_make} page=${page}/REFERENCE.md "${reference_list}" > ${page}/REFERENCE.md)
  set(kind values)
  if(page STREQUAL "layers")
    set(kind types)
  endif()
  list(APPEND write_uses COMMAND ${reference_make} page=${page}/REFERENCE.md -v uses=${kind} "${reference_list}" >>
       "${reference_uses}")
  lockstep_add_source_test(
    docs.reference.${page} COMMAND sh -c "page=\"$0\" && made=\"$1\" && shift && \"$@\" >\"$made\" && cmp \"$made\" \"$page\""
                                   ${page}/REFERENCE.md "${CMAKE_CURRENT_BINARY_DIR}/documents/${page}.md" ${reference_make}
                                   page=${page}/REFERENCE.md "${reference_list}")
  set_tests_properties(docs.reference.${page} PROPERTIES WORKING_DIRECTORY "${reference_rooms}")
endforeach()

add_custom_target(
  reference
  ${write}
  WORKING_DIRECTORY "${reference_rooms}"
  VERBATIM)

# The check itself: a name without a line of use, and a header that no page has.
lockstep_add_source_test(docs.reference_check COMMAND ${reference_make} page=REFERENCE.md reference.txt)
set_tests_properties(
  docs.reference_check
  PROPERTIES WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/documents/forgetful" PASS_REGULAR_EXPRESSION
             "lacks the header core/b.hpp of face.hpp.*lacks Told::untold.*lacks Forgotten")

file(GLOB_RECURSE reference_headers "${reference_rooms}/*.hpp")
add_custom_command(
  OUTPUT "${reference_uses}"
  COMMAND "${CMAKE_COMMAND}" -E copy "${CMAKE_CURRENT_SOURCE_DIR}/documents/reference.cpp.in" "${reference_uses}" ${write_uses}
  COMMAND "${CMAKE_COMMAND}" -E echo "}" >> "${reference_uses}"
  DEPENDS documents/reference.cpp.in documents/reference.awk documents/reference.txt ${reference_headers}
  WORKING_DIRECTORY "${reference_rooms}"
  VERBATIM)
add_library(docs_reference_uses OBJECT EXCLUDE_FROM_ALL "${reference_uses}")
target_link_libraries(docs_reference_uses PRIVATE lockstep_test_program $<TARGET_NAME_IF_EXISTS:lockstep::images>
                                            $<TARGET_NAME_IF_EXISTS:lockstep::mpi>)
add_dependencies(lockstep_documents docs_reference_uses)
