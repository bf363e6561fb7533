# cmake -D ROOT=<repository> -P temporary_names.cmake
#
# Fails, naming the file, if an example or the README has a string that begins with "/tmp/.

cmake_minimum_required(VERSION 3.24)

file(GLOB_RECURSE files "${ROOT}/examples/*.cpp" "${ROOT}/README.md" "${ROOT}/examples/*.md")
if(NOT files)
  message(FATAL_ERROR "no examples under ${ROOT}")
endif()
set(failed OFF)
foreach(file IN LISTS files)
  file(READ "${file}" text)
  if(text MATCHES "\"/tmp/[^\"]*\"")
    message(NOTICE "${file}: ${CMAKE_MATCH_0}: use a folder relative to the working folder")
    set(failed ON)
  endif()
endforeach()
if(failed)
  message(FATAL_ERROR "fixed names in /tmp")
endif()
