// Counter-based random numbers: the value at (seed, key, counter) is a pure function, on every
// machine.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
/// 2011.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox4x32(
    std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Names a stream of random numbers. Derived keys are independent:
/// `RandomKey(seed).fold_in(step).fold_in(layer)`.
class RandomKey {
 public:
  constexpr explicit RandomKey(std::uint64_t seed = 0) noexcept : value_(seed) {}

  /// The key for one value of a further dimension (step, layer, sample index, ...).
  [[nodiscard]] constexpr RandomKey fold_in(std::uint64_t data) const noexcept {
    const auto r = philox4x32(
        {static_cast<std::uint32_t>(data), static_cast<std::uint32_t>(data >> 32), 0x666F6C64, 0},
        {static_cast<std::uint32_t>(value_), static_cast<std::uint32_t>(value_ >> 32)});
    return RandomKey(r[0] | std::uint64_t{r[1]} << 32);
  }

  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_;
};

/// A sequence of random numbers from a key; a UniformRandomBitGenerator. Its distributions,
/// `uniform()` in [0, 1), `uniform(low, high)`, `normal()` and `below(bound)`, give the same values
/// with every standard library, which std::uniform_real_distribution and its kin do not.
///
/// Used by one thread; for other threads, derive keys.
class RandomStream {
 public:
  using result_type = std::uint32_t;

  constexpr explicit RandomStream(RandomKey key) noexcept : key_(key) {}

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return 0xFFFFFFFF; }

  constexpr result_type operator()() noexcept {
    if (used_ == 4) {
      block_ = philox4x32(
          {static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32), 0, 0},
          {static_cast<std::uint32_t>(key_.value()),
           static_cast<std::uint32_t>(key_.value() >> 32)});
      ++counter_;
      used_ = 0;
    }
    return block_[used_++];
  }

  /// Uniform in [0, 1), a multiple of 2^-53.
  constexpr double uniform() noexcept {
    const std::uint64_t high = operator()() >> 5;
    const std::uint64_t low = operator()() >> 6;
    return static_cast<double>(high << 26 | low) * 0x1p-53;
  }

  constexpr double uniform(double low, double high) noexcept {
    return low + (high - low) * uniform();
  }

  /// Normal with mean 0 and standard deviation 1 (Box-Muller; one value of each pair is used).
  double normal() noexcept {
    const double u = 1.0 - uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * uniform());
  }

  /// Uniform in {0, ..., bound - 1}, without bias. bound must be at least 1.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    // 2^64 mod bound values would be drawn once too often
    const std::uint64_t rejected = (0 - bound) % bound;
    for (;;) {
      const std::uint64_t high = operator()();
      const std::uint64_t value = high << 32 | operator()();
      if (value >= rejected) return value % bound;
    }
  }

 private:
  RandomKey key_;
  std::uint64_t counter_ = 0;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = 4;
};

}}  // namespace lockstep
