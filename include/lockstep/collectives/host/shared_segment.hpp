// Memory that several processes of one machine map.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// How another process finds a segment.
struct SegmentName {
  std::int32_t process = 0;
  std::int32_t descriptor = -1;
  std::uint64_t size = 0;    ///< bytes
  std::uint64_t cookie = 0;  ///< a random number at the segment's begin: is it really this one?
};

/// A mapped piece of memory without a name in any file system (Linux's memfd): it takes nothing of
/// /dev/shm, and is gone with the last process that has it, however that one ends.
class SharedSegment {
 public:
  /// What belongs to the owner and comes before data(): the cookie, in a cache line of its own.
  static constexpr std::size_t header_bytes = 64;

  SharedSegment() noexcept = default;
  /// A new one of zeros, with room for `size` bytes. Throws Error when the system refuses.
  [[nodiscard]] static SharedSegment create(std::size_t size, std::uint64_t cookie);
  /// One of another process, which must run under the same user and in the same process namespace.
  /// Throws Error saying why it cannot be mapped, or that it is not the one that was meant.
  [[nodiscard]] static SharedSegment open(const SegmentName& name);

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  /// The owner gives it up: no process can open it any more, and it stays as it is until the last
  /// one that has mapped it is gone.
  void disown() noexcept;

  /// Aligned to 64 bytes.
  [[nodiscard]] std::byte* data() const noexcept { return base_ + header_bytes; }
  [[nodiscard]] std::size_t size() const noexcept { return name_.size; }
  [[nodiscard]] const SegmentName& name() const noexcept { return name_; }

 private:
  void map(int descriptor);

  std::byte* base_ = nullptr;
  Descriptor descriptor_;  // the owner's; no other needs it any more
  SegmentName name_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/host/shared_segment.ipp"
#endif
