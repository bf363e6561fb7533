// Images that are moved, turned and scaled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/interpolation.hpp"
#include "lockstep/data/image_shape.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// What lies beyond the border of an image of pixels a b c d.
enum class FillMode {
  reflect,   ///< d c b a | a b c d | d c b a
  wrap,      ///< a b c d | a b c d | a b c d
  constant,  ///< fill_value
  nearest    ///< a a a a | a b c d | d d d d
};

/// The range of a random factor: of a single number f, [-f, f].
struct FactorRange {
  double lower = 0;
  double upper = 0;

  constexpr FactorRange(double factor) noexcept
      : lower(factor < 0 ? factor : 0 - factor), upper(factor < 0 ? 0 - factor : factor) {}
  constexpr FactorRange(double low, double high) noexcept : lower(low), upper(high) {}
};

namespace detail {

/// Pixel (row, column) of the result is what lies at (row_by_row * row + row_by_column * column +
/// row_shift, ...) of the image.
struct AffineMap {
  double row_by_row = 1, row_by_column = 0, row_shift = 0;
  double column_by_row = 0, column_by_column = 1, column_shift = 0;
};

struct WarpOptions {
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  double fill_value = 0;
};

void warp_image(const ImageShape& image, const AffineMap& map, const WarpOptions& options,
                std::span<float> x);
void warp_image(const ImageShape& image, const AffineMap& map, const WarpOptions& options,
                std::span<double> x);

/// Throws ConfigurationError unless the range is finite, ascends and lies in [least, most].
void check_factor(std::string_view caller, std::string_view name, FactorRange factor, double least,
                  double most);

[[nodiscard]] std::string text_of(FactorRange factor);
/// ", reflect, bilinear"
[[nodiscard]] std::string text_of(const WarpOptions& options);

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/image_warp.ipp"
#endif
