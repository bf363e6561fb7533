// Cuda: a GPU of NVIDIA as the device that computes a model.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/compute_device.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/extra/cuda/kernels.cuh"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The first GPU that the process sees (CUDA_VISIBLE_DEVICES says which one). In programs that link
/// lockstep::cuda, which has what is declared here. Its functions throw Error with CUDA's text.
/// Used by one thread at a time.
class Cuda : public ComputeDevice {
 public:
  /// The device of the process. Throws Error where there is none.
  static Cuda& instance();
  ~Cuda() override;

  /// "NVIDIA H100 80GB HBM3, 132 multiprocessors, 81079 MiB"
  [[nodiscard]] std::string description() const;

  [[nodiscard]] Buffer allocate(std::size_t bytes) override;
  [[nodiscard]] Buffer allocate_for_host(std::size_t bytes) override;
  void synchronize() override;

  /// Enqueues a kernel of kernels.cuh.
  template <class Kernel>
  void launch(const Kernel& kernel);
  void copy(void* to, const void* from, std::size_t bytes);
  /// Enqueues what f enqueues, as one CUDA graph; with the same key again the graph of then.
  void replay(const cuda::GraphKey& key, FunctionRef<void()> f);

 private:
  Cuda();

  struct State;
  State* state_;
};

}}  // namespace lockstep
