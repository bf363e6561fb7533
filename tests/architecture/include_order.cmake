# cmake -D ROOT=<folder with include/lockstep> -P include_order.cmake
#
# Without the library, a header includes its .ipp at its end. So a header A that includes a
# header B at its top must not be included, through any .ipp, from B: a program that begins with A
# would compile that .ipp before it has seen A. Prints each such pair, and fails if there is one.

cmake_minimum_required(VERSION 3.24)

# Of these, the first includes the second at its own end, or is in a detail folder, and no program
# begins with it.
set(harmless
    "checkpoint/weights_file.hpp checkpoint/detail/hdf5_file.hpp" #
    "checkpoint/detail/hdf5_file.hpp checkpoint/weights_file.hpp")

file(GLOB_RECURSE files RELATIVE "${ROOT}/include/lockstep" "${ROOT}/include/lockstep/*.[hi]pp")
foreach(file IN LISTS files)
  file(STRINGS "${ROOT}/include/lockstep/${file}" lines REGEX "^#include \"lockstep/")
  list(TRANSFORM lines REPLACE "^#include \"lockstep/([^\"]+)\".*" "\\1")
  if(file MATCHES "\\.ipp$")
    string(REGEX REPLACE "\\.ipp$" ".hpp" own "${file}")
    list(REMOVE_ITEM lines "${own}")
  endif()
  set(of_${file} "${lines}")
endforeach()

# Takes away, again and again, what includes nothing that is left: circles remain, and what includes
# them.
set(left "${files}")
set(before 0)
list(LENGTH left now)
while(NOT now EQUAL before)
  set(next "")
  foreach(file IN LISTS left)
    set(rest "")
    foreach(other IN LISTS of_${file})
      if(NOT gone_${other})
        list(APPEND rest "${other}")
      endif()
    endforeach()
    set(of_${file} "${rest}")
    if(rest)
      list(APPEND next "${file}")
    else()
      set(gone_${file} ON)
    endif()
  endforeach()
  set(left "${next}")
  set(before ${now})
  list(LENGTH left now)
endwhile()

# Whether `from` includes `to`, itself or through others.
function(reaches from to result)
  set(seen "${from}")
  set(queue "${from}")
  while(queue)
    list(POP_FRONT queue file)
    foreach(other IN LISTS of_${file})
      if(other STREQUAL to)
        set(${result} ON PARENT_SCOPE)
        return()
      elseif(NOT other IN_LIST seen)
        list(APPEND seen "${other}")
        list(APPEND queue "${other}")
      endif()
    endforeach()
  endwhile()
  set(${result} OFF PARENT_SCOPE)
endfunction()

set(failed OFF)
foreach(file IN LISTS left)
  if(file MATCHES "\\.ipp$")
    continue()
  endif()
  foreach(other IN LISTS of_${file})
    if(other MATCHES "\\.ipp$" OR "${file} ${other}" IN_LIST harmless)
      continue()
    endif()
    reaches("${other}" "${file}" circle)
    if(circle)
      message(NOTICE "include/lockstep/${file}: includes ${other}, whose .ipp, or that of a header "
                     "behind it, includes ${file}: declare what is needed instead, or move the body")
      set(failed ON)
    endif()
  endforeach()
endforeach()
if(failed)
  message(FATAL_ERROR "a program without the library cannot begin with these headers")
endif()
