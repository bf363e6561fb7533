# Tests of a folder include the same headers and instantiate the same templates: several of them in
# one translation unit are compiled in two thirds of the time.

option(LOCKSTEP_JOIN_TESTS "Compile several test sources at a time (OFF while one works on one of them)" ON)

# lockstep_join_tests(<name> <source file>...): sets `joined` to the sources to compile for <name>.
# Each test source is included in a namespace of its own, after the headers of all. Those stand alone
# that include headers in an `#if`, define macros, open a named namespace, or are not compiled as the
# others are.
function(lockstep_join_tests name)
  set(apart "\n#if[^\n]*\n+#include|\n(# *define|namespace [A-Za-z0-9_: ]+{)|HAS_(HDF5|JPEG|NCCL|PNG)")
  set(joined "")
  set(places "")
  set(bytes 0)
  foreach(source IN LISTS ARGN)
    file(READ "${source}" text)
    if(NOT LOCKSTEP_JOIN_TESTS OR text MATCHES "${apart}")
      list(APPEND joined "${source}")
      continue()
    endif()
    # (40 kB of tests in each: fewer would gain less, more would leave cores without work at the
    # end.)
    string(LENGTH "${text}" length)
    math(EXPR place "${bytes} / 40000")
    math(EXPR bytes "${bytes} + ${length}")
    list(APPEND places ${place})
    string(REGEX MATCHALL "\n#include [^\n]+" includes "\n${text}")
    list(APPEND includes_of_${place} ${includes})
    string(MAKE_C_IDENTIFIER "${source}" scope)
    string(APPEND tests_of_${place} "namespace joined_${scope} {\n#include \"${source}\"\nTEST_SUITE_END();\n}\n")
  endforeach()
  list(REMOVE_DUPLICATES places)
  foreach(place IN LISTS places)
    list(REMOVE_DUPLICATES includes_of_${place})
    list(JOIN includes_of_${place} "" includes)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/joined/${name}-${place}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "${includes}\n\n${tests_of_${place}}" @ONLY)
    # (g++ takes the tests for headers, and warns of their anonymous namespaces.)
    set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS
                                                       "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>")
    list(APPEND joined "${source}")
  endforeach()
  set(joined
      ${joined}
      PARENT_SCOPE)
endfunction()
