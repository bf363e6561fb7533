# lockstep.pc and lockstep-compiled.pc. They find their files from where they are, so that the
# installed tree may be moved.

set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE
           LOCKSTEP_PC_PREFIX)
# (Asio and cereal have no .pc file everywhere; their headers are where the compiler looks.)
set(LOCKSTEP_PC_REQUIRES "eigen3 >= 3.4 nlohmann_json >= 3.9")
set(LOCKSTEP_PC_DEFINITIONS -DASIO_STANDALONE)
if(ZLIB_FOUND)
  string(APPEND LOCKSTEP_PC_REQUIRES " zlib")
  string(APPEND LOCKSTEP_PC_DEFINITIONS " -DLOCKSTEP_HAS_ZLIB=1")
endif()
if(OpenSSL_FOUND)
  string(APPEND LOCKSTEP_PC_REQUIRES " libssl libcrypto")
  string(APPEND LOCKSTEP_PC_DEFINITIONS " -DLOCKSTEP_HAS_OPENSSL=1")
endif()

set(names lockstep)
if(LOCKSTEP_BUILD_COMPILED)
  list(APPEND names lockstep-compiled)
endif()
foreach(name IN LISTS names)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${pkgconfig_dir}")
endforeach()
