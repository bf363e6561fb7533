# Install and export: find_package(lockstep) gives lockstep::headers and lockstep::lockstep, which is
# the installed library where it was built and fits, and else is compiled in the user's project.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
set(LOCKSTEP_WITH_ZLIB ${ZLIB_FOUND})
set(LOCKSTEP_WITH_OPENSSL ${OpenSSL_FOUND})

install(TARGETS lockstep_headers EXPORT lockstepTargets FILE_SET HEADERS)
if(LOCKSTEP_BUILD_COMPILED)
  set(optional "")
else()
  set(optional OPTIONAL) # built only if something in this project links it
endif()
install(TARGETS lockstep EXPORT lockstepLibrary ARCHIVE ${optional})
install(EXPORT lockstepLibrary NAMESPACE lockstep:: DESTINATION "${package_dir}")
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION "${package_dir}")

lockstep_abi_flags(LOCKSTEP_ABI_FLAGS)
set(LOCKSTEP_SOURCES "${CMAKE_INSTALL_INCLUDEDIR}/lockstep/src")
set(LOCKSTEP_ARCHIVE "${CMAKE_INSTALL_LIBDIR}/${CMAKE_STATIC_LIBRARY_PREFIX}lockstep${CMAKE_STATIC_LIBRARY_SUFFIX}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/lockstepConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/lockstepConfig.cmake" INSTALL_DESTINATION "${package_dir}"
                              PATH_VARS LOCKSTEP_SOURCES LOCKSTEP_ARCHIVE)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lockstepConfig.cmake" "${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake"
        DESTINATION "${package_dir}")
install(FILES "${CMAKE_CURRENT_LIST_DIR}/hdf5.cmake" "${CMAKE_CURRENT_LIST_DIR}/images.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/mpi.cmake" "${CMAKE_CURRENT_LIST_DIR}/cuda.cmake" "${CMAKE_CURRENT_LIST_DIR}/nccl.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/library.cmake" DESTINATION "${package_dir}")
install(FILES "${CMAKE_CURRENT_LIST_DIR}/modules/FindAsio.cmake" DESTINATION "${package_dir}/modules")

include("${CMAKE_CURRENT_LIST_DIR}/packaging/pkgconfig/pkgconfig.cmake")
