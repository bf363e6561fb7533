# cmake -D CONAN=<program> -D SOURCE_DIR=<lockstep> -D BUILD_DIR=<folder> -D COMPILER=<compiler>
#       -P conan.cmake
#
# Conan makes the package, headers only and with the library, and runs its test package. The
# libraries that lockstep needs are the system's: conan/system/conanfile.py makes packages of them,
# so that nothing is fetched.

cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")

set(ENV{CONAN_HOME} "${BUILD_DIR}/home")
set(ENV{CXX} "${COMPILER}")
file(REMOVE_RECURSE "${BUILD_DIR}")
file(MAKE_DIRECTORY "${BUILD_DIR}")
run("${CONAN}" profile detect)

set(recipe "${SOURCE_DIR}/cmake/packaging/conan")
set(options -s compiler.cppstd=20 -s build_type=Debug --no-remote)
# Nothing is written into the sources.
list(APPEND options -c "tools.cmake.cmake_layout:test_folder=${BUILD_DIR}/test_package"
     -c tools.cmake.cmaketoolchain:user_presets=)
foreach(dependency IN ITEMS eigen/3.4.0 asio/1.28.2 nlohmann_json/3.11.3 cereal/1.3.2 zlib/1.3.1 openssl/3.0.0)
  string(REPLACE "/" ";" dependency "${dependency}")
  list(GET dependency 0 name)
  list(GET dependency 1 version)
  run("${CONAN}" create "${CMAKE_CURRENT_LIST_DIR}/conan/system" --name=${name} --version=${version} ${options})
endforeach()
foreach(compiled IN ITEMS False True)
  run("${CONAN}" create "${recipe}" ${options} -o "&:compiled=${compiled}" --build=missing
      --test-folder=test_package)
endforeach()
