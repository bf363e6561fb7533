// ComputeDevice: what computes a model, where that is not the processor.
#pragma once

#include <cstddef>

#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A device that works through what it is told in that order, beside the processor. Program::device
/// says which one computes a model; for most models there is none. Each process uses a device from
/// one thread at a time.
class ComputeDevice {
 public:
  ComputeDevice() = default;
  ComputeDevice(const ComputeDevice&) = delete;
  ComputeDevice& operator=(const ComputeDevice&) = delete;
  virtual ~ComputeDevice() = default;

  /// Zeros for what the device computes with in each step: parameters, gradients, slots,
  /// activations. The processor may use them between synchronize() and the next task, at the price
  /// of moving them. Throws Error where the device has too little memory.
  [[nodiscard]] virtual Buffer allocate(std::size_t bytes) = 0;
  /// Zeros for what the processor uses in each step: batches, predictions, untrained state. The
  /// device reaches them too, slowly.
  [[nodiscard]] virtual Buffer allocate_for_host(std::size_t bytes) = 0;
  /// Waits until all tasks are done. Throws Error when one has failed.
  virtual void synchronize() = 0;
};

}}  // namespace lockstep
