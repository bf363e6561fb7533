# Cuda, on a GPU. (On emulated threads: tests/extra/cuda/on.test.cpp.)

if(NOT TARGET lockstep::cuda)
  lockstep_add_skipped_test(cuda "there is no nvcc, or LOCKSTEP_WITH_CUDA is OFF")
  return()
endif()

add_executable(cuda_gpu extra/cuda/gpu.cpp)
target_link_libraries(cuda_gpu PRIVATE lockstep_test_program lockstep::cuda doctest::doctest)
target_include_directories(cuda_gpu PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
add_test(NAME cuda.gpu COMMAND cuda_gpu)
set_tests_properties(cuda.gpu PROPERTIES LABELS full TIMEOUT 300 SKIP_RETURN_CODE 77)
