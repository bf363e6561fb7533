#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/image_decoders.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void refuse_image(const std::string& path, std::initializer_list<TextPiece> why) {
  throw DataError(concat({"image ", path, ": ", concat(why)}));
}

LOCKSTEP_INLINE DecodedImage blank_image(const std::string& path, std::uint64_t height,
                                         std::uint64_t width, std::uint64_t more,
                                         const ImageLimits& limits) {
  if (height == 0 || width == 0)
    refuse_image(path, {"expected at least one pixel, the header says ", height, " x ", width});
  std::uint64_t needed = 0;
  bool too_large = __builtin_mul_overflow(height, width, &needed);
  too_large = __builtin_mul_overflow(needed, std::uint64_t{3}, &needed) || too_large;
  too_large = __builtin_add_overflow(needed, more, &needed) || too_large;
  if (too_large || needed > limits.memory)
    refuse_image(path, {"its ", height, " x ", width, " pixels take ", too_large ? "over " : "",
                        too_large ? ~std::uint64_t{0} : needed,
                        " bytes to decode, and ImageLimits::memory is ", limits.memory,
                        ": make the image smaller, or raise the limit"});
  DecodedImage image{static_cast<std::size_t>(height), static_cast<std::size_t>(width)};
  image.rgb.resize(image.height * image.width * 3);
  return image;
}

}}}  // namespace lockstep::detail
