# Install and export: find_package(lockstep) gives lockstep::lockstep and, where it was built,
# lockstep::compiled.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
set(LOCKSTEP_WITH_ZLIB ${ZLIB_FOUND})
set(LOCKSTEP_WITH_OPENSSL ${OpenSSL_FOUND})

install(TARGETS lockstep EXPORT lockstepTargets FILE_SET HEADERS)
if(LOCKSTEP_BUILD_COMPILED)
  install(TARGETS lockstep_compiled EXPORT lockstepTargets)
endif()
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION "${package_dir}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/lockstepConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/lockstepConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lockstepConfig.cmake" "${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake"
        DESTINATION "${package_dir}")
install(FILES "${CMAKE_CURRENT_LIST_DIR}/hdf5.cmake" "${CMAKE_CURRENT_LIST_DIR}/images.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/mpi.cmake" DESTINATION "${package_dir}")
install(FILES "${CMAKE_CURRENT_LIST_DIR}/modules/FindAsio.cmake" DESTINATION "${package_dir}/modules")

include("${CMAKE_CURRENT_LIST_DIR}/packaging/pkgconfig/pkgconfig.cmake")
