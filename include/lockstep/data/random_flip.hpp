// Images that are mirrored at random.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/image_shape.hpp"
#include "lockstep/data/map.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A function for map: mirrors every second image, on average. Which ones depends on seed, pass and
/// sample, not on the number of workers and replicas.
struct RandomFlip {
  ImageShape image{};
  bool horizontal = true;  ///< left and right
  bool vertical = false;   ///< top and bottom, drawn on its own

  [[nodiscard]] std::string description() const {
    return concat({"RandomFlip(image=", image.to_string(), horizontal ? ", horizontal" : "",
                   vertical ? ", vertical" : "", ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("RandomFlip", image, sample.x.size());
    RandomStream random(sample.key);
    const bool left_right = random.below(2) == 1, top_bottom = random.below(2) == 1;
    const std::size_t row_size = image.width * image.channels;
    const auto swap = [](T* a, T* b, std::size_t n) { std::swap_ranges(a, a + n, b); };
    if (horizontal && left_right)
      for (std::size_t row = 0; row < image.height; ++row)
        for (std::size_t column = 0; column < image.width / 2; ++column) {
          T* const begin = sample.x.data() + row * row_size;
          swap(begin + column * image.channels, begin + (image.width - 1 - column) * image.channels,
               image.channels);
        }
    if (vertical && top_bottom)
      for (std::size_t row = 0; row < image.height / 2; ++row)
        swap(sample.x.data() + row * row_size,
             sample.x.data() + (image.height - 1 - row) * row_size, row_size);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
