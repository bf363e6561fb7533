// What cuda.cu gives to the rest of lockstep::cuda.
#pragma once

namespace lockstep::cuda {

/// Enqueues one of LOCKSTEP_CUDA_KERNELS. `stream`: a cudaStream_t. Returns a cudaError_t.
template <class Kernel>
int launch(const Kernel& kernel, void* stream);

}  // namespace lockstep::cuda
