// Random parts of padded images.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/image_shape.hpp"
#include "lockstep/data/map.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A function for map: adds `padding` pixels of zeros at each border, and takes a part of the
/// former size at a random place (torchvision's RandomCrop with padding). Which one depends on
/// seed, pass and sample, not on the number of workers and replicas.
/// @code
/// from_tensor_slices(images / 255.0f, labels)
///     .shuffle(50'000)
///     .map(RandomCrop{.image = {32, 32, 3}, .padding = 4})
///     .map(RandomFlip{.image = {32, 32, 3}})
///     .batch(128)
/// @endcode
struct RandomCrop {
  ImageShape image{};
  std::size_t padding = 0;

  [[nodiscard]] std::string description() const {
    return concat({"RandomCrop(image=", image.to_string(), ", padding=", padding, ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("RandomCrop", image, sample.x.size());
    RandomStream random(sample.key);
    // Pixel (row, column) of the result is (row + down, column + right) of the image, or zero.
    const std::ptrdiff_t down = draw(random), right = draw(random);
    const auto [top, bottom] = inside(down, image.height);
    const auto [left, end] = inside(right, image.width);
    const std::size_t row_size = image.width * image.channels;
    T* const x = sample.x.data();
    for (std::size_t i = top; i < bottom; ++i) {
      const std::size_t row =
          down >= 0 ? i : top + bottom - 1 - i;  // no row is written before it is read
      T* const to = x + row * row_size;
      const T* const from =
          x + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(row) + down) * row_size;
      if (left < end)
        std::memmove(to + left * image.channels,
                     from + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(left) + right) *
                                image.channels,
                     (end - left) * image.channels * sizeof(T));
      std::fill(to, to + left * image.channels, T(0));
      std::fill(to + end * image.channels, to + row_size, T(0));
    }
    std::fill(x, x + top * row_size, T(0));
    std::fill(x + bottom * row_size, x + image.height * row_size, T(0));
  }

 private:
  [[nodiscard]] std::ptrdiff_t draw(RandomStream& random) const {
    return static_cast<std::ptrdiff_t>(random.below(2 * padding + 1)) -
           static_cast<std::ptrdiff_t>(padding);
  }
  /// The numbers [first, end) in [0, extent) that are still there with `shift` added.
  static std::pair<std::size_t, std::size_t> inside(std::ptrdiff_t shift, std::size_t extent) {
    const std::size_t lost = std::min(extent, static_cast<std::size_t>(std::abs(shift)));
    return shift < 0 ? std::pair(lost, extent) : std::pair(std::size_t{0}, extent - lost);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
