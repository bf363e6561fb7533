// Memory that several processes of one machine map, and pipes in it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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
  /// What belongs to the owner and comes before data(): the cookie, alone in its cache line.
  static constexpr std::size_t header_bytes = 64;

  SharedSegment() noexcept = default;
  /// A new one of zeros, with room for `size` bytes. Throws Error when the system refuses.
  [[nodiscard]] static SharedSegment create(std::size_t size, std::uint64_t cookie);
  /// One of another process, which must run under the same user and in the same process namespace.
  /// Throws Error saying why it cannot be mapped, or that it is not the one that was meant.
  [[nodiscard]] static SharedSegment open(const SegmentName& name);

  SharedSegment(SharedSegment&& other) noexcept { *this = std::move(other); }
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  /// The owner gives it up: no process can open it any more, and it stays as it is until the last
  /// one that has mapped it is gone.
  void disown() noexcept { descriptor_.close(); }

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

/// What the two share: a ring buffer. All zeros at first.
struct PipeMemory {
  static constexpr std::size_t capacity = std::size_t{1} << 20;

  alignas(64) std::atomic<std::uint64_t> written;  // bytes, ever
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::atomic<std::uint32_t> reader_waits;
  alignas(64) std::atomic<std::uint32_t> writer_waits;
  alignas(64) std::byte ring[capacity];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

// A process that waits says so before it looks for the last time, and the other one moves before it
// looks whether one waits: one of the two sees the other. How a waiting process is woken is not a
// pipe's business.

class PipeWriter {
 public:
  explicit PipeWriter(PipeMemory& memory) noexcept : memory_(memory) {}

  /// Writes as much as there is room for, and returns how much.
  std::size_t write(std::span<const std::byte> bytes) noexcept {
    const std::size_t n = std::min(bytes.size(), room());
    const std::size_t begin = written_ % PipeMemory::capacity;
    const std::size_t first = std::min(n, PipeMemory::capacity - begin);
    if (n > 0) std::memcpy(memory_.ring + begin, bytes.data(), first);
    if (n > first) std::memcpy(memory_.ring, bytes.data() + first, n - first);
    memory_.written.store(written_ += n);
    return n;
  }
  /// After write(): whether the reader is to be woken.
  [[nodiscard]] bool reader_waits() noexcept {
    return memory_.reader_waits.load() != 0 && memory_.reader_waits.exchange(0) != 0;
  }
  /// Says that it waits for room. Returns whether there is some after all.
  [[nodiscard]] bool wait() noexcept {
    memory_.writer_waits.store(1);
    if (room() == 0) return false;
    memory_.writer_waits.store(0);
    return true;
  }

 private:
  // (Whatever the other process writes there, no more than the ring.)
  [[nodiscard]] std::size_t room() const noexcept {
    return PipeMemory::capacity -
           std::min<std::uint64_t>(written_ - memory_.read.load(), PipeMemory::capacity);
  }

  PipeMemory& memory_;
  std::uint64_t written_ = 0;
};

class PipeReader {
 public:
  explicit PipeReader(PipeMemory& memory) noexcept : memory_(memory) {}

  /// Reads what is available, and returns the number of bytes.
  std::size_t read(std::span<std::byte> bytes) noexcept {
    const std::size_t n = std::min(bytes.size(), available());
    const std::size_t begin = read_ % PipeMemory::capacity;
    const std::size_t first = std::min(n, PipeMemory::capacity - begin);
    if (n > 0) std::memcpy(bytes.data(), memory_.ring + begin, first);
    if (n > first) std::memcpy(bytes.data() + first, memory_.ring, n - first);
    memory_.read.store(read_ += n);
    return n;
  }
  /// After read(): whether the writer is to be woken. Not before half of the ring is free, so that
  /// it is not woken for each piece.
  [[nodiscard]] bool writer_waits() noexcept {
    return available() <= PipeMemory::capacity / 2 && memory_.writer_waits.load() != 0 &&
           memory_.writer_waits.exchange(0) != 0;
  }
  /// Says that it waits for bytes. Returns whether there are some after all.
  [[nodiscard]] bool wait() noexcept {
    memory_.reader_waits.store(1);
    if (available() == 0) return false;
    memory_.reader_waits.store(0);
    return true;
  }

 private:
  [[nodiscard]] std::size_t available() const noexcept {
    return std::min<std::uint64_t>(memory_.written.load() - read_, PipeMemory::capacity);
  }

  PipeMemory& memory_;
  std::uint64_t read_ = 0;
};

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

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/host/shared_segment.ipp"
#endif
