# The library behind lockstep::lockstep: what of the headers is no template of the user's types,
# compiled once (include/lockstep/src/*.cpp). For lockstep's own build, and for an installed lockstep
# in a project that compiles it with its own flags.

# The sources, with how each is optimised. Kernels, and sums over ranks, lose up to a fifth of their
# speed at -O2 (convolutions with AVX2, steps on two threads); what runs in each step has -O2; of the
# rest, more than -O1 would cost time to compile, and save none.
set(lockstep_O3 kernels)
set(lockstep_O2 parts data training)
set(lockstep_O1 files workers)
set(lockstep_parts ${lockstep_O3} ${lockstep_O2} ${lockstep_O1})

# lockstep_add_library(<name> <sources folder> <source>...): a static library, built when something
# links it.
function(lockstep_add_library name folder)
  # What is built beside the user's own files says so.
  set(stamp "${CMAKE_CURRENT_BINARY_DIR}/lockstep.stamp")
  get_source_file_property(has_stamp "${stamp}" GENERATED)
  if(NOT has_stamp)
    add_custom_command(OUTPUT "${stamp}" COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
                       COMMENT "lockstep: building the library, once" VERBATIM)
  endif()
  add_library(${name} STATIC EXCLUDE_FROM_ALL "${stamp}")
  foreach(part IN LISTS ARGN)
    foreach(each IN ITEMS O1 O2 O3)
      if(part IN_LIST lockstep_${each})
        set(level ${each})
      endif()
    endforeach()
    set_source_files_properties("${folder}/${part}.cpp" PROPERTIES OBJECT_DEPENDS "${stamp}" COMPILE_OPTIONS
                                                                   "$<$<NOT:$<CONFIG:Debug>>:-${level}>")
    target_sources(${name} PRIVATE "${folder}/${part}.cpp")
  endforeach()
  target_link_libraries(${name} PUBLIC lockstep::headers)
  target_compile_definitions(${name} PUBLIC LOCKSTEP_COMPILED=1)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF DISABLE_PRECOMPILE_HEADERS ON)
endfunction()

# lockstep_add_double_library(<name> <sources folder>): what programs need besides that name double.
function(lockstep_add_double_library name folder)
  lockstep_add_library(${name} "${folder}" kernels parts training) # whose .ipp files have no static variables
  target_link_libraries(${name} PUBLIC lockstep::lockstep)
  target_compile_definitions(${name} PUBLIC LOCKSTEP_DOUBLE=1 PRIVATE LOCKSTEP_DOUBLE_SOURCE=1)
endfunction()

# lockstep_abi_flags(<variable>): the flags of this folder that change the instruction set or the
# ABI, or are a sanitizer's. What is built with others does not fit (core/config.hpp).
function(lockstep_abi_flags variable)
  get_directory_property(options COMPILE_OPTIONS)
  get_directory_property(definitions COMPILE_DEFINITIONS)
  set(all "${CMAKE_CXX_FLAGS} ${options} ${definitions}")
  foreach(config IN LISTS CMAKE_BUILD_TYPE CMAKE_CONFIGURATION_TYPES)
    string(TOUPPER "${config}" config)
    string(APPEND all " ${CMAKE_CXX_FLAGS_${config}}")
  endforeach()
  string(REGEX MATCHALL "(-fsanitize|-march|-mavx|-mfma|-stdlib|_GLIBCXX_USE_CXX11_ABI|_GLIBCXX_DEBUG)[^ ;]*" flags "${all}")
  list(REMOVE_DUPLICATES flags)
  list(SORT flags)
  set(${variable} "${flags}" PARENT_SCOPE)
endfunction()

# For a project in which programs include the headers.
get_property(is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT is_multi_config AND "${CMAKE_BUILD_TYPE}${CMAKE_CXX_FLAGS}" STREQUAL "")
  message(STATUS "lockstep: without CMAKE_BUILD_TYPE, programs are not optimised, and those that link lockstep::headers "
                 "some 20 times slower: cmake -DCMAKE_BUILD_TYPE=Release")
endif()
