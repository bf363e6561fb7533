// The extents of an image.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Of samples that are images: row by row, the channels of a pixel together.
struct ImageShape {
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t channels = 1;

  [[nodiscard]] constexpr std::size_t size() const noexcept { return height * width * channels; }
  [[nodiscard]] std::string to_string() const {
    return concat({height, " x ", width, " x ", channels});
  }
};

namespace detail {

/// Throws DataError for a sample of another size.
inline void require_image(std::string_view what, const ImageShape& image, std::size_t elements) {
  if (image.size() != elements)
    throw DataError(concat({what, ": expected images of ", image.to_string(), ", got a sample of ",
                            elements, " elements"}));
}

}  // namespace detail

}  // namespace lockstep::inline LOCKSTEP_ABI
