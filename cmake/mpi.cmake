# lockstep::mpi: lockstep::headers with the collective Mpi, when CMake finds an MPI library. For
# lockstep's own build and for find_package(lockstep COMPONENTS mpi). A program may link it beside
# lockstep::lockstep.

set(MPI_CXX_SKIP_MPICXX ON) # the interface of C is all that is used
find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND AND NOT TARGET lockstep::mpi)
  add_library(lockstep::mpi INTERFACE IMPORTED GLOBAL)
  target_link_libraries(lockstep::mpi INTERFACE lockstep::headers MPI::MPI_CXX)
  target_compile_definitions(lockstep::mpi INTERFACE LOCKSTEP_HAS_MPI=1)
endif()
