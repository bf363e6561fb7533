// Drawn digits: a dataset that needs no download.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/datasets/image_sets.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Draws grey images of the digits 0 to 9, white on black as MNIST's: pen strokes with random
/// rotation, shear, size, place, thickness, and jitter of every point; noise and short stray lines.
/// Only operations that IEEE 754 rounds exactly are used, so the images are the same on every
/// machine.
///
/// How hard they are, measured with PyTorch 2.5 on 7,000 + 1,000 images, seeds 1 to 3, each from
/// two initialisations: the best test accuracy that a linear softmax model reaches within 40 epochs
/// (SGD, momentum 0.9) is 92.0 to 93.6 %. A CNN (Conv2D 32 3x3 ReLU, Dense 128 ReLU, Dense 10; SGD
/// 0.02, momentum 0.9, batch 64, 5 x 109 steps) reaches 98.2 to 99.2 %, and after 3 x 70 steps of
/// plain SGD 0.001 with batch 128, loss 2.08 to 2.18, it is at 41 to 58 %.
class SyntheticDigits {
 public:
  static constexpr std::size_t height = 28;
  static constexpr std::size_t width = 28;
  using Image = std::span<std::uint8_t, height * width>;

  explicit SyntheticDigits(std::uint64_t seed = 1) noexcept : seed_(seed) {}

  /// Draws image `number` of the series, row-major, and returns its label. A function of seed and
  /// number alone.
  std::uint8_t draw(std::uint64_t number, Image image) const;

 private:
  std::uint64_t seed_;
};

struct SyntheticDigitsOptions {
  std::size_t train = 7000;  ///< number of images
  std::size_t test = 1000;   ///< number of images
  std::uint64_t seed = 1;
};

/// Images of digits, as MNIST's: [n x 28 x 28] of bytes, and labels 0 to 9. See SyntheticDigits.
/// Use: `make_synthetic_digits({.train = 1000, .test = 100})`. Keras: none.
[[nodiscard]] ImageDataset make_synthetic_digits(SyntheticDigitsOptions options = {});

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/datasets/synthetic_digits.ipp"
#endif
