# cmake -D ROOT=<tree with include/> -P texts.cmake
#
# Fails, naming file and line, where a header writes a number, an error or a text from a file by
# itself: numbers are written in core/text.ipp (printf and streams follow the program's locale), all
# exceptions are lockstep's (Error makes its message fit for a terminal), and the rooms that read
# files put their texts into quotes by in_quotes (which cuts them).

cmake_minimum_required(VERSION 3.24)

set(numbers "printf\\(|stringstream|setprecision|strto[dfl]|std::sto(d|f|ld)\\(|to_chars\\(|std::put_time")
set(errors "throw std::(runtime_error|logic_error|invalid_argument|out_of_range|domain_error|range_error)")
# "...'", text, "'...", of which the first or the last may be another piece, too.
set(quotes "'\"[ \n]*[,+][ \n]*[A-Za-z_][^\",{}?]*[,+][ \n]*\"'")
set(rooms "/include/lockstep/(checkpoint|datasets|extra/records|extra/tensorboard|saving|core/zip)")

file(GLOB_RECURSE files "${ROOT}/include/*.hpp" "${ROOT}/include/*.ipp")
if(NOT files)
  message(FATAL_ERROR "no headers under ${ROOT}")
endif()
set(failed OFF)
function(refuse pattern advice)
  if(NOT text MATCHES "${pattern}")
    return()
  endif()
  set(found "${CMAKE_MATCH_0}")
  string(FIND "${text}" "${found}" place)
  string(SUBSTRING "${text}" 0 ${place} before)
  string(REGEX MATCHALL "\n" lines "${before}")
  list(LENGTH lines line)
  math(EXPR line "${line} + 1")
  message(NOTICE "${file}:${line}: ${found}: ${advice}")
  set(failed ON PARENT_SCOPE)
endfunction()
foreach(file IN LISTS files)
  file(READ "${file}" text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  if(NOT file MATCHES "/core/text\\.ipp$")
    refuse("${numbers}" "numbers are written by number_text and hex_text, and read by from_chars")
  endif()
  refuse("${errors}" "an exception is an Error or of a class derived from it")
  refuse("log_line\\([^;]*\"warning: " "a warning is log_warning(text)")
  if(file MATCHES "${rooms}")
    refuse("${quotes}" "a text in quotes is in_quotes(text)")
  endif()
endforeach()
if(failed)
  message(FATAL_ERROR "texts and numbers that are not written by core/text.hpp")
endif()
