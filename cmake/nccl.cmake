# lockstep::nccl: lockstep::headers with the collective Nccl, when CMake finds NCCL and CUDA's runtime
# (no compiler for CUDA is needed). For lockstep's own build and for find_package(lockstep COMPONENTS
# nccl). A program may link it beside lockstep::lockstep.

set(lockstep_cuda HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda)
find_path(NCCL_INCLUDE_DIR nccl.h ${lockstep_cuda} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY nccl ${lockstep_cuda} PATH_SUFFIXES lib64 lib)
find_path(CUDA_RUNTIME_INCLUDE_DIR cuda_runtime.h ${lockstep_cuda} PATH_SUFFIXES include)
find_library(CUDA_RUNTIME_LIBRARY cudart ${lockstep_cuda} PATH_SUFFIXES lib64 lib)
unset(lockstep_cuda)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY CUDA_RUNTIME_INCLUDE_DIR CUDA_RUNTIME_LIBRARY)
if(NCCL_INCLUDE_DIR
   AND NCCL_LIBRARY
   AND CUDA_RUNTIME_INCLUDE_DIR
   AND CUDA_RUNTIME_LIBRARY
   AND NOT TARGET lockstep::nccl)
  add_library(lockstep::nccl INTERFACE IMPORTED GLOBAL)
  target_link_libraries(lockstep::nccl INTERFACE lockstep::headers "${NCCL_LIBRARY}" "${CUDA_RUNTIME_LIBRARY}")
  target_include_directories(lockstep::nccl SYSTEM INTERFACE "${NCCL_INCLUDE_DIR}" "${CUDA_RUNTIME_INCLUDE_DIR}")
  target_compile_definitions(lockstep::nccl INTERFACE LOCKSTEP_HAS_NCCL=1)
endif()
