// Arrays in shared memory: those of this rank, and those of others, where they are mapped.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/collectives/host/shared_segment.hpp"
#include "lockstep/collectives/policies/detail/shared_homes.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a rank has allocated for its collectives, and what it has mapped of the others'.
class SharedArrays {
 public:
  SharedArrays(int rank, int size);

  /// It may outlive this object.
  [[nodiscard]] Buffer allocate(std::size_t size);
  /// Says in the slot of this rank where in such memory the array is, if it is there.
  void find_segment(SharedSlot& mine, const void* data) const noexcept;
  /// Where the array of `rank` is that its slot names. Throws Error.
  [[nodiscard]] std::byte* mapped(int rank, const SharedSlot& slot);

 private:
  struct OwnSegments {
    std::vector<SharedSegment> list{};
  };

  const int rank_;
  std::shared_ptr<OwnSegments> own_;
  std::vector<std::vector<SharedSegment>> mapped_;  // by rank, the last used at the end
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/detail/shared_arrays.ipp"
#endif
