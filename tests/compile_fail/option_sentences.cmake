# cmake -D OPTIONS=<fit_options.hpp> -D SENTENCES=<model.hpp> -P option_sentences.cmake
#
# Fails unless the sentences about misspelt options list the fields of the options, in their order.

cmake_minimum_required(VERSION 3.24)

file(READ "${SENTENCES}" sentences)
string(REGEX REPLACE "\"\n *\"" "" sentences "${sentences}")

foreach(struct IN ITEMS FitOptions EvaluateOptions PredictOptions AdaptOptions)
  file(READ "${OPTIONS}" text)
  string(REPLACE ";" "," text "${text}")
  if(NOT text MATCHES "\nstruct ${struct} {\n(.*)")
    message(FATAL_ERROR "${OPTIONS} has no struct ${struct}")
  endif()
  set(text "${CMAKE_MATCH_1}")
  string(FIND "${text}" "\n}," end)
  string(SUBSTRING "${text}" 0 ${end} text)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  string(REGEX MATCHALL "[ >][a-z_]+ = " fields "${text}")
  list(TRANSFORM fields REPLACE "[ >=]" "")
  list(JOIN fields ", " fields)
  string(FIND "${sentences}" "${struct} has, in this order: ${fields}\"" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "${SENTENCES} has no sentence with: ${struct} has, in this order: ${fields}")
  endif()
endforeach()
