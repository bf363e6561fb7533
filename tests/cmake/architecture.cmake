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

# A program without lockstep::compiled may begin with any header; and the check of that, with a
# circle.
set(order -P "${CMAKE_CURRENT_SOURCE_DIR}/architecture/include_order.cmake")
lockstep_add_source_test(include_order COMMAND "${CMAKE_COMMAND}" -D "ROOT=${PROJECT_SOURCE_DIR}" ${order})
lockstep_add_source_test(include_order_check COMMAND "${CMAKE_COMMAND}" -D
                                                     "ROOT=${CMAKE_CURRENT_SOURCE_DIR}/architecture/circle" ${order})
set_tests_properties(include_order_check PROPERTIES PASS_REGULAR_EXPRESSION "a.hpp: includes b.hpp")

set(compiler "${CMAKE_COMMAND}" -D "COMPILER=${CMAKE_CXX_COMPILER}" -D "FLAGS=${LOCKSTEP_FLAGS_FILE}")

# A program that trains alone includes neither the network nor JSON nor archives.
lockstep_add_source_test(
  alone_without_network
  COMMAND ${compiler} -D "SOURCE=${PROJECT_SOURCE_DIR}/examples/alone.cpp" -D "WITHOUT=/(asio|nlohmann|cereal)/"
          -P "${CMAKE_CURRENT_SOURCE_DIR}/architecture/without.cmake")

# lockstep/lockstep.hpp includes everything.
lockstep_add_source_test(
  umbrella_header COMMAND ${compiler} -D "INCLUDE=${PROJECT_SOURCE_DIR}/include"
                          -P "${CMAKE_CURRENT_SOURCE_DIR}/architecture/umbrella.cmake")

# No program that a reader copies writes to a name in /tmp that another user of the machine could
# have taken.
lockstep_add_source_test(no_fixed_temporary_names COMMAND "${CMAKE_COMMAND}" -D "ROOT=${PROJECT_SOURCE_DIR}" -P
                                                          "${CMAKE_CURRENT_SOURCE_DIR}/architecture/temporary_names.cmake")

# What programs compile for themselves when they link lockstep::compiled: one of the tutorial's
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
  set(reason "what does not depend on the user's types belongs into an .ipp, for lockstep::compiled")
  lockstep_add_compile_budget(compile_budget examples/tutorial.cpp 165 70000 "${options}" "${reason}")
  lockstep_add_compile_budget(compile_budget.gpt examples/gpt.cpp 375 125000 "${options}" "${reason}")
  lockstep_add_compile_budget(
    compile_budget.nothing tests/architecture/nothing.cpp 2800 370000 -O0
    "virtual members that an .ipp defines are declared with LOCKSTEP_INLINE_VIRTUAL, see core/config.hpp")
else()
  lockstep_add_skipped_test(compile_budget "counts what g++ compiles, with nm and size")
endif()
