# As an overlay port it builds the tree that it stands in. A registry's port has vcpkg_from_github
# in place of the next line.
cmake_path(ABSOLUTE_PATH CMAKE_CURRENT_LIST_DIR NORMALIZE OUTPUT_VARIABLE here)
cmake_path(GET here PARENT_PATH SOURCE_PATH) # vcpkg
cmake_path(GET SOURCE_PATH PARENT_PATH SOURCE_PATH) # packaging
cmake_path(GET SOURCE_PATH PARENT_PATH SOURCE_PATH) # cmake
cmake_path(GET SOURCE_PATH PARENT_PATH SOURCE_PATH)

vcpkg_check_features(
  OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  FEATURES compiled LOCKSTEP_BUILD_COMPILED
           mpi LOCKSTEP_WITH_MPI
  INVERTED_FEATURES zlib CMAKE_DISABLE_FIND_PACKAGE_ZLIB
                    openssl CMAKE_DISABLE_FIND_PACKAGE_OpenSSL)

if(NOT "compiled" IN_LIST FEATURES)
  set(VCPKG_BUILD_TYPE release) # headers only
endif()

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${FEATURE_OPTIONS})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/lockstep)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
