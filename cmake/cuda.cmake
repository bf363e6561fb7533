# lockstep::cuda: Cuda, the device of On<Cuda, Net>, when CMake finds nvcc: two sources, compiled once
# in the project that links it. For lockstep's own build and for find_package(lockstep COMPONENTS
# cuda). `lockstep_cuda_sources`: their folder.

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER AND NOT TARGET lockstep::cuda)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit QUIET)
  add_library(lockstep_cuda STATIC EXCLUDE_FROM_ALL "${lockstep_cuda_sources}/cuda.cu"
                                                    "${lockstep_cuda_sources}/device.cpp")
  add_library(lockstep::cuda ALIAS lockstep_cuda)
  set_target_properties(lockstep_cuda PROPERTIES CUDA_STANDARD 17 POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
  target_link_libraries(lockstep_cuda PUBLIC lockstep::lockstep PRIVATE CUDA::cudart_static)
endif()
