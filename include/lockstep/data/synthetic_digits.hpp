// Drawn digits: a dataset that needs no download.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/data/labelled_images.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Draws grey images of the digits 0 to 9, white on black as MNIST's.
class SyntheticDigits {
 public:
  static constexpr std::size_t height = 28;
  static constexpr std::size_t width = 28;
  using Image = std::span<std::uint8_t, height * width>;

  explicit SyntheticDigits(std::uint64_t seed = 1) noexcept : seed_(seed) {}

  /// Draws image `number` of the series, row-major, and returns its label. A function of seed and number alone.
  std::uint8_t draw(std::uint64_t number, Image image) const;

 private:
  std::uint64_t seed_;
};

struct SyntheticDigitsOptions {
  std::size_t train = 7000;  ///< number of images
  std::size_t test = 1000;   ///< number of images
  std::uint64_t seed = 1;
};

[[nodiscard]] ImageDataset make_synthetic_digits(SyntheticDigitsOptions options = {});

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/synthetic_digits.ipp"
#endif
