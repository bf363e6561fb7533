# Mpi, on the ranks of real jobs: the programs of extra/mpi/.

if(NOT TARGET lockstep::mpi)
  lockstep_add_skipped_test(mpi "there is no MPI library (Debian: libopenmpi-dev, openmpi-bin)")
  return()
endif()

foreach(program IN ITEMS operations failures training)
  add_executable(mpi_${program} extra/mpi/${program}.cpp)
  target_link_libraries(mpi_${program} PRIVATE lockstep_test_program lockstep::mpi)
endforeach()

function(lockstep_add_mpi_test name)
  add_test(NAME mpi.${name} COMMAND ${ARGN})
  # More ranks than cores, and also as root; the library's own leaks are not ours.
  set(environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
                  PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe ASAN_OPTIONS=detect_leaks=0)
  set_tests_properties(mpi.${name} PROPERTIES LABELS full TIMEOUT 300 ENVIRONMENT "${environment}")
endfunction()

foreach(ranks IN ITEMS 1 2 3 4)
  lockstep_add_mpi_test(operations.${ranks} "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} ${ranks}
                        $<TARGET_FILE:mpi_operations>)
endforeach()
lockstep_add_mpi_test(training "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:mpi_training>)

function(lockstep_add_mpi_failure name code expected)
  lockstep_add_mpi_test(
    ${name} "${CMAKE_COMMAND}" -D "MPIEXEC=${MPIEXEC_EXECUTABLE}" -D RANKS=${MPIEXEC_NUMPROC_FLAG}
    -D PROGRAM=$<TARGET_FILE:mpi_failures> -D NAME=${name} -D CODE=${code} -D "EXPECTED=${expected}"
    -P "${CMAKE_CURRENT_SOURCE_DIR}/extra/mpi/fails.cmake")
endfunction()
lockstep_add_mpi_failure(abort 1 "worker 1 ends the job: the loss is not finite")
lockstep_add_mpi_failure(hang 138 "worker 0 ends the job: all_reduce: no progress for 1000 ms")
lockstep_add_mpi_failure(not_started 138 "worker 0 ends the job: start-up: no progress for 1000 ms")
lockstep_add_mpi_failure(another_place 2 "this worker is 0 of 2 in its cluster and rank 1 of 2 in MPI")
lockstep_add_mpi_failure(another_program 2 "the workers differ in 'replicas'")
