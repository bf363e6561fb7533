# Where there is ccache, lockstep's own build uses it. A clone in another folder finds what this one
# has compiled: paths are hashed as they are from the root of the sources. (What depends on more than
# its text, as with -march=native, has no launcher.)
#
# Precompiled headers are left out then: g++ knows the headers in them by their time stamps, clang++
# by absolute paths, and both are others in a clone.

find_program(LOCKSTEP_CCACHE ccache)
mark_as_advanced(LOCKSTEP_CCACHE)
if(LOCKSTEP_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_BASEDIR=${PROJECT_SOURCE_DIR};CCACHE_NOHASHDIR=1;${LOCKSTEP_CCACHE}")
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
