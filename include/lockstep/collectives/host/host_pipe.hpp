// What two ranks on one host share.
#pragma once

#include <utility>

#include "lockstep/collectives/host/byte_pipe.hpp"
#include "lockstep/collectives/host/shared_segment.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A pipe to a peer and one from it. Each belongs to its writer.
class HostPipe {
 public:
  HostPipe(SharedSegment out, SharedSegment in) noexcept
      : out_(std::move(out)), in_(std::move(in)), writer(memory(out_)), reader(memory(in_)) {}
  HostPipe(const HostPipe&) = delete;
  HostPipe& operator=(const HostPipe&) = delete;

 private:
  static PipeMemory& memory(const SharedSegment& segment) noexcept {
    return *reinterpret_cast<PipeMemory*>(segment.data());
  }

  SharedSegment out_;
  SharedSegment in_;

 public:
  PipeWriter writer;
  PipeReader reader;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
