# Finds Asio without Boost, which brings no CMake package: asio::asio, Asio_FOUND, Asio_VERSION.

find_path(Asio_INCLUDE_DIR asio.hpp)
mark_as_advanced(Asio_INCLUDE_DIR)

if(Asio_INCLUDE_DIR)
  # 1.22.1 is written as 102201
  file(STRINGS "${Asio_INCLUDE_DIR}/asio/version.hpp" Asio_VERSION REGEX "#define ASIO_VERSION [0-9]+")
  string(REGEX REPLACE ".* ([0-9]+)([0-9][0-9][0-9])([0-9][0-9]).*" "\\1.\\2.\\3" Asio_VERSION "${Asio_VERSION}")
  string(REGEX REPLACE "\\.0+([0-9])" ".\\1" Asio_VERSION "${Asio_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Asio REQUIRED_VARS Asio_INCLUDE_DIR VERSION_VAR Asio_VERSION)

if(Asio_FOUND AND NOT TARGET asio::asio)
  add_library(asio::asio INTERFACE IMPORTED)
  set_target_properties(asio::asio PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Asio_INCLUDE_DIR}"
                                              INTERFACE_COMPILE_DEFINITIONS ASIO_STANDALONE)
endif()
