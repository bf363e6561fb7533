// Images that are turned at random.
#pragma once

#include <cmath>
#include <numbers>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/interpolation.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/image_shape.hpp"
#include "lockstep/data/image_warp.hpp"
#include "lockstep/data/map.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A function for map: turns an image about its middle, by an angle that is uniform in `factor`
/// times a full turn, counter-clockwise where it is positive (Keras's RandomRotation). Throws
/// ConfigurationError, when the first sample is read, for a range that is none, and DataError for a
/// sample of another size. What is drawn depends on seed, pass and sample, not on the number of
/// workers and replicas.
struct RandomRotation {
  ImageShape image{};
  FactorRange factor = 0.0;  ///< in full turns, within [-1, 1]
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  double fill_value = 0;  ///< for FillMode::constant

  [[nodiscard]] std::string description() const {
    return concat({"RandomRotation(image=", image.to_string(), ", factor=", detail::text_of(factor),
                   detail::text_of(detail::WarpOptions{fill_mode, interpolation, fill_value}),
                   ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("RandomRotation", image, sample.x.size());
    detail::check_factor("RandomRotation", "factor", factor, -1, 1);
    RandomStream random(sample.key);
    const double angle = 2 * std::numbers::pi * random.uniform(factor.lower, factor.upper);
    const double cos = std::cos(angle), sin = std::sin(angle);
    const double row = (static_cast<double>(image.height) - 1) / 2,
                 column = (static_cast<double>(image.width) - 1) / 2;
    const detail::AffineMap map{.row_by_row = cos,
                                .row_by_column = sin,
                                .row_shift = row - cos * row - sin * column,
                                .column_by_row = -sin,
                                .column_by_column = cos,
                                .column_shift = column + sin * row - cos * column};
    detail::warp_image(image, map, {fill_mode, interpolation, fill_value}, sample.x);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
