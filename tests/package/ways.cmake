# -D WAY=add_subdirectory|fetch_content|find_package|from_source, and what run.cmake lists.
#
# The project user/ takes lockstep in this way; third/ uses the library that it installs. Only
# add_subdirectory and from_source compile lockstep's library, and each once.

cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

file(REMOVE_RECURSE "${BUILD_DIR}")
set(ENV{CMAKE_PREFIX_PATH} "${BUILD_DIR}/prefix:${PREFIX}")
set(once "lockstep: building the library, once")
set(kernels "Building CXX object [^\n]*kernels\\.cpp\\.o")
set(flags "${FLAGS}")
if(WAY STREQUAL "from_source")
  string(APPEND flags " -fsanitize=address")
  set(ENV{ASAN_OPTIONS} detect_leaks=0) # (the leak checker itself once crashed here, for no known reason)
endif()

function(configure project build)
  run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${CMAKE_CURRENT_LIST_DIR}/${project}" -B "${BUILD_DIR}/${build}"
      "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DWAY=${WAY}" "-DLOCKSTEP_SOURCE_DIR=${SOURCE_DIR}"
      "-DCMAKE_RUNTIME_OUTPUT_DIRECTORY=${BUILD_DIR}/${build}/bin/$<CONFIG>" "-DCMAKE_CXX_FLAGS_DEBUG=${flags}"
      "-DCMAKE_CXX_FLAGS_RELEASE=${flags} -DNDEBUG" --no-warn-unused-cli ${OPTIONS} ${ARGN})
  set(output "${output}" PARENT_SCOPE)
endfunction()

# build(<project> <configuration> [<argument>...])
function(build project config)
  run("${CMAKE_COMMAND}" --build "${BUILD_DIR}/${project}" --config ${config} ${ARGN})
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Without a build type.
configure(user untyped -DCMAKE_BUILD_TYPE=)
expect("lockstep: without CMAKE_BUILD_TYPE" 1)

# What the library is.
if(WAY STREQUAL "find_package")
  expect("lockstep::lockstep is a STATIC_LIBRARY" 1)
  foreach(option IN ITEMS -DLOCKSTEP_FROM_SOURCE=ON -DCMAKE_CXX_FLAGS=-march=native -DCMAKE_CXX_FLAGS_DEBUG=-fsanitize=thread)
    configure(user untyped -DCMAKE_BUILD_TYPE=Debug ${option})
    expect("lockstep::lockstep is a INTERFACE_LIBRARY" 1)
    configure(user untyped -DLOCKSTEP_FROM_SOURCE=OFF -DCMAKE_CXX_FLAGS=)
    expect("lockstep::lockstep is a STATIC_LIBRARY" 1)
  endforeach()
endif()

if(WAY MATCHES "add_subdirectory|find_package" AND GENERATOR STREQUAL "Ninja")
  set(GENERATOR "Ninja Multi-Config")
endif()
if(WAY STREQUAL "fetch_content") # (as add_subdirectory, of which all else is shown)
  configure(user user -DCMAKE_BUILD_TYPE=Debug "${pretend}")
  build(user Debug --target part)
  expect("${once}" 1)
  expect("${kernels}" 1)
  return()
endif()

configure(user user -DCMAKE_BUILD_TYPE=Debug)
expect_not("without CMAKE_BUILD_TYPE")
build(user Debug)
if(WAY STREQUAL "find_package")
  expect_not("${once}")
  build(user Release)
else()
  expect("${once}" 1)
  expect("${kernels}" 1)
endif()
file(GLOB programs "${BUILD_DIR}/user/bin/*/*")
foreach(program IN LISTS programs)
  run("${program}")
endforeach()

build(user Debug)
expect_not("${once}|Building|Linking")

if(WAY STREQUAL "find_package")
  build(user Debug --target reader_headers)
  # The linker refuses a target whose flags do not fit the library, and names what is missing.
  set(link "${CMAKE_COMMAND}" --build "${BUILD_DIR}/user" --config Debug --target)
  set(missing "undefined [^\n]*lockstep::abi_0_[a-z0-9_]*")
  cmake_host_system_information(RESULT processor QUERY OS_PLATFORM)
  if(processor STREQUAL "x86_64")
    refuse("${missing}avx2::" ${link} avx2)
  endif()
  refuse("${missing}_old_string::" ${link} old_string)

  # The project of examples/README.md.
  configure(trainer trainer -DCMAKE_BUILD_TYPE=Debug)
  build(trainer Debug)
  run("${BUILD_DIR}/trainer/bin/Debug/trainer")

  # lockstep::double is compiled from the installed sources.
  configure(user pretended "${pretend}")
  build(pretended Debug --target part_double)
  expect("${kernels}" 1)
endif()

# The library of the user's, in a third project.
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}/user" --config Debug --prefix "${BUILD_DIR}/prefix")
if(NOT WAY STREQUAL "from_source")
  configure(third third -DCMAKE_BUILD_TYPE=Debug)
  build(third Debug)
  run("${BUILD_DIR}/third/bin/Debug/third")
endif()

# What has its library of its own, in the third project and in another configuration, pretends to
# compile it.
if(WAY STREQUAL "from_source")
  configure(third third -DCMAKE_BUILD_TYPE=Debug "${pretend}")
  build(third Debug --target lockstep_library)
  expect("${kernels}" 1)
elseif(WAY STREQUAL "add_subdirectory")
  configure(user pretended "${pretend}")
  build(pretended Debug --target part)
  build(pretended Release --target part)
  expect("${kernels}" 1)
endif()
