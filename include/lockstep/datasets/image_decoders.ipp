#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/datasets/image_decoders.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE DecodedImage blank_image(const std::string& path, std::uint64_t height,
                                         std::uint64_t width) {
  constexpr std::uint64_t most = std::uint64_t{1} << 28;
  if (height == 0 || width == 0 || height > most / width)
    throw DataError(concat({"image ", path, ": expected from 1 to ", most,
                            " pixels, the header says ", height, " x ", width}));
  DecodedImage image{static_cast<std::size_t>(height), static_cast<std::size_t>(width)};
  image.rgb.resize(image.height * image.width * 3);
  return image;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
