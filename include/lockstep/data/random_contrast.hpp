// Images of more or less contrast.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/image_shape.hpp"
#include "lockstep/data/image_warp.hpp"
#include "lockstep/data/map.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A function for map: (x - mean) * c + mean for each channel, with its mean over the image and c
/// uniform in [1 + factor.lower, 1 + factor.upper], and the result clipped to value_range (Keras's
/// RandomContrast, whose documentation promises [1 - f, 1 + f] for a single number f). Throws
/// ConfigurationError, when the first sample is read, for a range that is none, and DataError for a
/// sample of another size. What is drawn depends on seed, pass and sample, not on the number of
/// workers and replicas.
struct RandomContrast {
  ImageShape image{};
  FactorRange factor = 0.0;                ///< within [-1, 1]
  FactorRange value_range = {0.0, 255.0};  ///< of the pixels; {0, 1} where they were divided by 255

  [[nodiscard]] std::string description() const {
    return concat({"RandomContrast(image=", image.to_string(), ", factor=", detail::text_of(factor),
                   ", value_range=", detail::text_of(value_range), ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("RandomContrast", image, sample.x.size());
    detail::check_factor("RandomContrast", "factor", factor, -1, 1);
    const T contrast =
        static_cast<T>(RandomStream(sample.key).uniform(1 + factor.lower, 1 + factor.upper));
    const T low = static_cast<T>(value_range.lower), high = static_cast<T>(value_range.upper);
    for (std::size_t channel = 0; channel < image.channels; ++channel) {
      double sum = 0;
      for (std::size_t i = channel; i < sample.x.size(); i += image.channels)
        sum += static_cast<double>(sample.x[i]);
      const T mean = static_cast<T>(sum / static_cast<double>(image.height * image.width));
      for (std::size_t i = channel; i < sample.x.size(); i += image.channels)
        sample.x[i] = std::min(std::max((sample.x[i] - mean) * contrast + mean, low), high);
    }
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
