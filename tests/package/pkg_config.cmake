# -D PKG_CONFIG=<program>, and what run.cmake lists.
#
# A program is built with what pkg-config says, from an installed tree that was moved.

cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

file(REMOVE_RECURSE "${BUILD_DIR}")
file(COPY "${PREFIX}/" DESTINATION "${BUILD_DIR}/moved")
file(GLOB_RECURSE pc "${BUILD_DIR}/moved/lockstep*.pc")
list(GET pc 0 pc_dir)
cmake_path(GET pc_dir PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} "${pc_dir}")
list(TRANSFORM pc REPLACE "^.*/(.*)\\.pc$" "\\1")
set(optional "${pc}")
list(REMOVE_ITEM optional lockstep lockstep-headers)
separate_arguments(FLAGS)

# compile(<source> <flag> <package>...)
function(compile source flag)
  execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs ${ARGN} OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run("${COMPILER}" -std=c++20 ${FLAGS} ${flag} "${CMAKE_CURRENT_LIST_DIR}/${source}" ${flags} -o "${BUILD_DIR}/program")
endfunction()

compile(program.cpp "" lockstep)
run("${BUILD_DIR}/program")
if(optional) # lockstep-images, lockstep-hdf5
  compile(user/reader.cpp "" lockstep ${optional})
  run("${BUILD_DIR}/program")
endif()
compile(user/reader.cpp -E lockstep-headers ${optional}) # finds all headers
