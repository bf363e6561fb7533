# Likely mistakes get the error message that they deserve, from g++ and from clang++ where both are
# installed: each file in compile_fail/ is one mistake (compile_fail/check.cmake says how it is
# written).

find_program(LOCKSTEP_GXX g++)
find_program(LOCKSTEP_CLANGXX clang++)
mark_as_advanced(LOCKSTEP_GXX LOCKSTEP_CLANGXX)

foreach(compiler IN ITEMS g++ clang++)
  string(TOUPPER "LOCKSTEP_${compiler}" path)
  string(REPLACE "+" "X" path "${path}")
  if(NOT ${path})
    lockstep_add_skipped_test(compile_fail.${compiler} "there is no ${compiler}")
  endif()
endforeach()

file(GLOB mistakes CONFIGURE_DEPENDS "compile_fail/*.cpp")
foreach(source IN LISTS mistakes)
  cmake_path(GET source STEM name)
  foreach(compiler IN ITEMS "${LOCKSTEP_GXX}" "${LOCKSTEP_CLANGXX}")
    if(compiler)
      cmake_path(GET compiler FILENAME compiler_name)
      lockstep_add_source_test(
        compile_fail.${name}.${compiler_name}
        COMMAND "${CMAKE_COMMAND}" -D "COMPILER=${compiler}" -D "FLAGS=${LOCKSTEP_FLAGS_FILE}" -D "SOURCE=${source}"
                -P "${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/check.cmake")
    endif()
  endforeach()
endforeach()

# The sentence about a misspelt option names the existing options.
lockstep_add_source_test(
  compile_fail.option_sentences
  COMMAND "${CMAKE_COMMAND}" -D "OPTIONS=${PROJECT_SOURCE_DIR}/include/lockstep/training/fit_options.hpp" -D
          "SENTENCES=${PROJECT_SOURCE_DIR}/include/lockstep/model/model.hpp" -P
          "${CMAKE_CURRENT_SOURCE_DIR}/compile_fail/option_sentences.cmake")
