// The library of lockstep::cuda: kernels, and CUDA's run-time calls. nvcc compiles this file, which
// therefore includes nothing of lockstep but kernels.cuh; device.cpp joins the two.
#include <cuda_runtime.h>

#include "lockstep/extra/cuda/kernels.cuh"
#include "lockstep/extra/cuda/launch.cuh"

namespace lockstep::cuda {
namespace {

struct DeviceLane {
  unsigned thread, block;
  __device__ __forceinline__ void barrier() const { __syncthreads(); }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads) run(const __grid_constant__ Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  kernel(DeviceLane{threadIdx.x, blockIdx.x}, shared);
}

}  // namespace

template <class Kernel>
int launch(const Kernel& kernel, void* stream) {
  const auto blocks = static_cast<unsigned>(kernel.blocks());
  if (blocks == 0) return cudaSuccess;
  run<<<blocks, Kernel::threads, 0, static_cast<cudaStream_t>(stream)>>>(kernel);
  return cudaGetLastError();
}

#define LOCKSTEP_CUDA_INSTANCE(...) template int launch(const __VA_ARGS__&, void*);
LOCKSTEP_CUDA_KERNELS(LOCKSTEP_CUDA_INSTANCE)

}  // namespace lockstep::cuda
