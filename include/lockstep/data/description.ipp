#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/core/crc.hpp"
#include "lockstep/data/description.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE void PipelineDescription::add(std::initializer_list<TextPiece> stage) {
  if (!text.empty()) text += " -> ";
  text += concat(stage);
}

namespace detail {

LOCKSTEP_INLINE std::vector<std::int64_t> fingerprint_positions(std::int64_t samples,
                                                                std::size_t elements) {
  constexpr std::size_t elements_read = std::size_t{1} << 16;
  const auto most = static_cast<std::int64_t>(
      std::clamp<std::size_t>(elements_read / std::max<std::size_t>(elements, 1), 2, 16));
  const std::int64_t count = std::min(std::max<std::int64_t>(samples, 0), most);
  std::vector<std::int64_t> positions;
  // (The quotient first: samples * i might be too large.)
  for (std::int64_t i = 0, steps = std::max<std::int64_t>(count - 1, 1); i < count; ++i)
    positions.push_back((samples - 1) / steps * i + (samples - 1) % steps * i / steps);
  return positions;
}

LOCKSTEP_INLINE std::uint32_t fingerprint_checksum(TensorView<const float> x,
                                                   TensorView<const float> y) {
  std::uint32_t checksum = 0;
  for (const TensorView<const float>& view : {x, y})
    for (std::size_t f = 0; f < view.features(); ++f)
      checksum = crc32c(std::as_bytes(std::span(view.feature(f), view.samples())), checksum);
  return checksum;
}

inline std::size_t elements_of(std::span<const std::size_t> extents) {
  std::size_t product = 1;
  for (const std::size_t extent : extents) product *= extent;
  return product;
}

LOCKSTEP_INLINE bool is_same_shape(std::span<const std::size_t> a, std::span<const std::size_t> b) {
  if (elements_of(a) != elements_of(b)) return false;
  const auto without_ones = [](std::span<const std::size_t> extents) {
    std::vector<std::size_t> kept(extents.begin(), extents.end());
    std::erase(kept, std::size_t{1});
    return kept;
  };
  const std::vector<std::size_t> kept_of_a = without_ones(a), kept_of_b = without_ones(b);
  return kept_of_a.size() <= 1 || kept_of_b.size() <= 1 || kept_of_a == kept_of_b;
}

LOCKSTEP_INLINE std::vector<std::size_t> shape_of_size(std::vector<std::size_t> extents,
                                                       std::size_t size) {
  if (elements_of(extents) != size) extents.assign(1, size);
  return extents;
}

}  // namespace detail
}}  // namespace lockstep
