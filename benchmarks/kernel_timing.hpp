// What benchmarks of single kernels share: a clock, and arrays of numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "lockstep/core/buffer.hpp"

namespace benchmarks {

/// Seconds of processor time of this thread.
inline double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Numbers in [-1, 1).
class Array {
 public:
  explicit Array(std::size_t size) : buffer_(size * sizeof(float)) {
    std::uint32_t state = 1;
    std::generate_n(data(), size, [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
    });
  }
  [[nodiscard]] float* data() const { return reinterpret_cast<float*>(buffer_.data()); }

 private:
  lockstep::Buffer buffer_;
};

}  // namespace benchmarks
