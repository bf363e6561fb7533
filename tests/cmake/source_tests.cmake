# Helpers for tests of the sources: they need one build only, hence the label source.

# lockstep_add_source_test(<name> COMMAND <command>...)
function(lockstep_add_source_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "COMMAND")
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "full;source" TIMEOUT 900 SKIP_RETURN_CODE 77)
endfunction()

# lockstep_add_skipped_test(<name> <why>): a test that cannot run here. ctest
# lists it as skipped, so that it does not look like one that has passed.
function(lockstep_add_skipped_test name why)
  lockstep_add_source_test(${name} COMMAND sh -c "echo \"$0\"; exit 77" "SKIPPED: ${name}: ${why}")
endfunction()

# lockstep_add_build_test(<name> TARGET <target>): the target, which is not part
# of all, can be built.
function(lockstep_add_build_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TARGET" "")
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  if(CMAKE_GENERATOR MATCHES "Ninja")
    set(keep_going -- -k 0)
  else()
    set(keep_going -- -k)
  endif()
  lockstep_add_source_test(
    ${name}
    COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target ${arg_TARGET} --parallel ${cores} ${keep_going})
  # One build at a time in a build folder, and it uses all cores.
  math(EXPR processors "${cores} * ${LOCKSTEP_PROCESSORS_OF_CORE}")
  set_tests_properties(${name} PROPERTIES RESOURCE_LOCK build_folder PROCESSORS ${processors})
endfunction()
