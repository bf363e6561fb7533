# The folders of include/lockstep/ include one another, and other libraries, only as the table says.

set(check "${CMAKE_COMMAND}" -D "TABLE=${CMAKE_CURRENT_SOURCE_DIR}/architecture/folders.txt")
set(script -P "${CMAKE_CURRENT_SOURCE_DIR}/architecture/check.cmake")

lockstep_add_source_test(architecture COMMAND ${check} -D "ROOT=${PROJECT_SOURCE_DIR}" ${script})

# The check itself: a small tree with each kind of offence.
lockstep_add_source_test(architecture_check COMMAND ${check} -D "ROOT=${CMAKE_CURRENT_SOURCE_DIR}/architecture/offences"
                                                    ${script})
file(STRINGS architecture/offences/expected.txt expected)
list(JOIN expected ".*" expected)
set_tests_properties(architecture_check PROPERTIES PASS_REGULAR_EXPRESSION "${expected}")

# Which rooms' tests a change concerns (.ci/run).
lockstep_add_source_test(
  rooms COMMAND sh -c "\"$0\" \"$1\" \"$2\" \"$3\" | cmp - \"$4\"" "${CMAKE_CURRENT_SOURCE_DIR}/architecture/rooms.awk"
                "${CMAKE_CURRENT_SOURCE_DIR}/architecture/folders.txt" ${CMAKE_CURRENT_SOURCE_DIR}/architecture/rooms/changed.txt
                ${CMAKE_CURRENT_SOURCE_DIR}/architecture/rooms/tests.txt ${CMAKE_CURRENT_SOURCE_DIR}/architecture/rooms/expected.txt)

# A program without the library may begin with any header; and the check of that, with a
# circle.
set(order -P "${CMAKE_CURRENT_SOURCE_DIR}/architecture/include_order.cmake")
lockstep_add_source_test(include_order COMMAND "${CMAKE_COMMAND}" -D "ROOT=${PROJECT_SOURCE_DIR}" ${order})
lockstep_add_source_test(include_order_check COMMAND "${CMAKE_COMMAND}" -D
                                                     "ROOT=${CMAKE_CURRENT_SOURCE_DIR}/architecture/circle" ${order})
set_tests_properties(include_order_check PROPERTIES PASS_REGULAR_EXPRESSION "a.hpp: includes b.hpp")

# Numbers, errors and texts from files are written in one place each; and the check of that.
set(texts -P "${CMAKE_CURRENT_SOURCE_DIR}/architecture/texts.cmake")
lockstep_add_source_test(texts COMMAND "${CMAKE_COMMAND}" -D "ROOT=${PROJECT_SOURCE_DIR}" ${texts})
lockstep_add_source_test(texts_check COMMAND "${CMAKE_COMMAND}" -D "ROOT=${CMAKE_CURRENT_SOURCE_DIR}/architecture/unfit"
                                             ${texts})
set_tests_properties(
  texts_check PROPERTIES PASS_REGULAR_EXPRESSION "a.hpp:6: printf.*a.hpp:7: throw std::runtime_error.*a.hpp:8: '\", path")

set(compiler "${CMAKE_COMMAND}" -D "COMPILER=${CMAKE_CXX_COMPILER}" -D "FLAGS=${LOCKSTEP_FLAGS_FILE}")

# A program that trains alone includes neither the network nor JSON nor archives.
lockstep_add_source_test(
  alone_without_network
  COMMAND ${compiler} -D "SOURCE=${PROJECT_SOURCE_DIR}/examples/alone.cpp" -D "WITHOUT=/(asio|nlohmann|cereal)/"
          -P "${CMAKE_CURRENT_SOURCE_DIR}/architecture/without.cmake")

# Each header is in a face.
lockstep_add_source_test(
  umbrella_header COMMAND ${compiler} -D "INCLUDE=${PROJECT_SOURCE_DIR}/include"
                          -P "${CMAKE_CURRENT_SOURCE_DIR}/architecture/umbrella.cmake")

# No program that a reader copies writes to a name in /tmp that another user of the machine could
# have taken.
lockstep_add_source_test(no_fixed_temporary_names COMMAND "${CMAKE_COMMAND}" -D "ROOT=${PROJECT_SOURCE_DIR}" -P
                                                          "${CMAKE_CURRENT_SOURCE_DIR}/architecture/temporary_names.cmake")

# What programs compile for themselves when they link the library: one of the tutorial's
# size, and a deeper model; and what one compiles from the headers alone that uses nothing of them:
# what a log line needs to say whose it is. (Other compilers count otherwise.)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_NM)
  find_program(LOCKSTEP_SIZE size)
endif()
function(lockstep_add_compile_budget name source functions text options reason)
  lockstep_add_source_test(
    ${name}
    COMMAND ${compiler} -D "OPTIONS=${options}" -D "SOURCE=${PROJECT_SOURCE_DIR}/${source}" -D "NM=${CMAKE_NM}" -D
            "SIZE=${LOCKSTEP_SIZE}" -D "OBJECT=${CMAKE_CURRENT_BINARY_DIR}/${name}.o" -D FUNCTIONS=${functions} -D
            TEXT=${text} -D "REASON=${reason}" -P "${CMAKE_CURRENT_SOURCE_DIR}/architecture/compile_budget.cmake")
endfunction()
if(LOCKSTEP_SIZE)
  set(options -O2 -DNDEBUG -DLOCKSTEP_COMPILED=1)
  set(reason "what does not depend on the user's types belongs into an .ipp, for the library")
  lockstep_add_compile_budget(compile_budget examples/tutorial.cpp 166 70000 "${options}" "${reason}")
  lockstep_add_compile_budget(compile_budget.gpt examples/gpt.cpp 380 125000 "${options}" "${reason}")
  lockstep_add_compile_budget(
    compile_budget.nothing tests/architecture/nothing.cpp 2800 370000 -O0
    "virtual members that an .ipp defines are declared with LOCKSTEP_INLINE_VIRTUAL, see core/config.hpp")
  # What the library holds, and a program from the headers alone, in bytes of text.
  function(lockstep_add_size_budget name target text)
    lockstep_add_source_test(
      ${name}
      COMMAND sh -c "\"$0\" -t \"$1\" | awk -v most=$2 'END { print $1 + 0 \" bytes of text, at most \" most; exit !($1 > 0 && $1 <= most) }'"
              "${LOCKSTEP_SIZE}" $<TARGET_FILE:${target}> ${text})
  endfunction()
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    lockstep_add_size_budget(compile_budget.archive lockstep 3520000)
    lockstep_add_size_budget(compile_budget.alone alone 850000)
    # What the compiler allocates for the header and for an edit. (`.ci/run all` checks all rows.)
    lockstep_add_source_test(
      compile_budget.edits COMMAND "${CMAKE_COMMAND}" -E env "LOCKSTEP_FLAGS=${LOCKSTEP_FLAGS_FILE}" "CXX=${CMAKE_CXX_COMPILER}"
                                   "${PROJECT_SOURCE_DIR}/benchmarks/compile_time.sh" --edits --check)
  endif()
else()
  lockstep_add_skipped_test(compile_budget "counts what g++ compiles, with nm and size")
endif()
