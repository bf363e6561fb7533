# lockstep.pc (with the library), lockstep-headers.pc (headers alone), and lockstep-images.pc and
# lockstep-hdf5.pc, which go beside either. They find their files from where they are, so that the
# installed tree may be moved.

cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE
           pc_prefix)

# lockstep_add_pc(<name> <description> [REQUIRES <packages>] [CFLAGS <flags>] [LIBS <flags>])
function(lockstep_add_pc name description)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "REQUIRES;CFLAGS;LIBS" "")
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY CONTENT [=[
prefix=${pcfiledir}/@pc_prefix@

Name: @name@
Description: @description@ (compile with -std=c++20)
Version: @PROJECT_VERSION@
Requires: @arg_REQUIRES@
Cflags: @arg_CFLAGS@
Libs: @arg_LIBS@
]=])
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

# (Asio and cereal have no .pc file everywhere; their headers are where the compiler looks.)
set(requires "eigen3 >= 3.4 nlohmann_json >= 3.9")
set(cflags "-I\${prefix}/${CMAKE_INSTALL_INCLUDEDIR} -pthread -DASIO_STANDALONE")
if(ZLIB_FOUND)
  string(APPEND requires " zlib")
  string(APPEND cflags " -DLOCKSTEP_HAS_ZLIB=1")
endif()
if(OpenSSL_FOUND)
  string(APPEND requires " libssl libcrypto")
  string(APPEND cflags " -DLOCKSTEP_HAS_OPENSSL=1")
endif()
lockstep_add_pc(lockstep-headers "${PROJECT_DESCRIPTION}" REQUIRES "${requires}" CFLAGS "${cflags}" LIBS -pthread)

set(headers "lockstep-headers = ${PROJECT_VERSION}")
if(LOCKSTEP_BUILD_COMPILED)
  lockstep_add_pc(lockstep "lockstep, with its library" REQUIRES "${headers}" CFLAGS -DLOCKSTEP_COMPILED=1
                  LIBS "-L\${prefix}/${CMAKE_INSTALL_LIBDIR} -llockstep")
endif()
if(TARGET PNG::PNG AND TARGET JPEG::JPEG)
  lockstep_add_pc(lockstep-images "lockstep, with decoders for PNG and JPEG" REQUIRES "${headers} libpng libjpeg"
                  CFLAGS "-DLOCKSTEP_HAS_PNG=1 -DLOCKSTEP_HAS_JPEG=1")
endif()
if(TARGET lockstep::hdf5)
  lockstep_add_pc(lockstep-hdf5 "lockstep, with Keras's .weights.h5 files" REQUIRES "${headers}"
                  CFLAGS "-isystem ${HDF5_INCLUDE_DIR} -DLOCKSTEP_HAS_HDF5=1" LIBS "${HDF5_LIBRARY}")
endif()
