# lockstep::hdf5: lockstep::headers with Keras's .weights.h5 files, when CMake finds HDF5's library
# for C. For lockstep's own build and for find_package(lockstep COMPONENTS hdf5). A program may link
# it beside lockstep::lockstep.

# CMake's own module needs a compiler for C, and a project of C++ alone has none.
find_path(HDF5_INCLUDE_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
find_library(HDF5_LIBRARY NAMES hdf5_serial hdf5)
mark_as_advanced(HDF5_INCLUDE_DIR HDF5_LIBRARY)
if(HDF5_INCLUDE_DIR AND HDF5_LIBRARY AND NOT TARGET lockstep::hdf5)
  add_library(lockstep::hdf5 INTERFACE IMPORTED GLOBAL)
  target_link_libraries(lockstep::hdf5 INTERFACE lockstep::headers "${HDF5_LIBRARY}")
  target_include_directories(lockstep::hdf5 SYSTEM INTERFACE "${HDF5_INCLUDE_DIR}")
  target_compile_definitions(lockstep::hdf5 INTERFACE LOCKSTEP_HAS_HDF5=1)
endif()
