// Images with a hole.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/image_shape.hpp"
#include "lockstep/data/map.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A function for map: fills a square about a random pixel, as far as it lies in the image
/// (DeVries, Taylor, "Improved regularization of convolutional neural networks with cutout", 2017).
/// Throws ConfigurationError, when the first sample is read, for a size of 0, and DataError for a
/// sample of another size. What is drawn depends on seed, pass and sample, not on the number of
/// workers and replicas.
struct Cutout {
  ImageShape image{};
  std::size_t size = 0;   ///< of the square's sides, in pixels
  double fill_value = 0;  ///< best the mean of the pixels: 0 where they are normalised

  [[nodiscard]] std::string description() const {
    return concat(
        {"Cutout(image=", image.to_string(), ", size=", size, ", fill_value=", fill_value, ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("Cutout", image, sample.x.size());
    if (size == 0) throw ConfigurationError("Cutout: size must be at least 1, got 0");
    RandomStream random(sample.key);
    const auto row = static_cast<std::size_t>(random.below(image.height));
    const auto column = static_cast<std::size_t>(random.below(image.width));
    const std::size_t before = size / 2, after = size - before;
    const std::size_t top = row - std::min(row, before), left = column - std::min(column, before);
    const std::size_t bottom = std::min(image.height, row + after),
                      right = std::min(image.width, column + after);
    for (std::size_t r = top; r < bottom; ++r) {
      T* const line = sample.x.data() + r * image.width * image.channels;
      std::fill(line + left * image.channels, line + right * image.channels,
                static_cast<T>(fill_value));
    }
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
