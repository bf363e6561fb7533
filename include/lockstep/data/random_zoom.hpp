// Images that are scaled at random.
#pragma once

#include <optional>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/interpolation.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/image_shape.hpp"
#include "lockstep/data/image_warp.hpp"
#include "lockstep/data/map.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A function for map: scales an image about its middle. What was 1 + z pixels high becomes one, z
/// being uniform in height_factor: above 0 zooms out, below 0 in (Keras's RandomZoom). Throws
/// ConfigurationError, when the first sample is read, for a range that is none, and DataError for a
/// sample of another size. What is drawn depends on seed, pass and sample, not on the number of
/// workers and replicas.
struct RandomZoom {
  ImageShape image{};
  FactorRange height_factor = 0.0;  ///< within [-1, 1]
  std::optional<FactorRange> width_factor =
      {};  ///< without one, that of the height: the aspect stays
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  double fill_value = 0;  ///< for FillMode::constant

  [[nodiscard]] std::string description() const {
    return concat(
        {"RandomZoom(image=", image.to_string(), ", height_factor=", detail::text_of(height_factor),
         width_factor ? ", width_factor=" : "",
         width_factor ? detail::text_of(*width_factor) : std::string(),
         detail::text_of(detail::WarpOptions{fill_mode, interpolation, fill_value}), ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("RandomZoom", image, sample.x.size());
    detail::check_factor("RandomZoom", "height_factor", height_factor, -1, 1);
    if (width_factor) detail::check_factor("RandomZoom", "width_factor", *width_factor, -1, 1);
    RandomStream random(sample.key);
    const double height = 1 + random.uniform(height_factor.lower, height_factor.upper);
    const double width =
        width_factor ? 1 + random.uniform(width_factor->lower, width_factor->upper) : height;
    const detail::AffineMap map{
        .row_by_row = height,
        .row_shift = (1 - height) * (static_cast<double>(image.height) - 1) / 2,
        .column_by_column = width,
        .column_shift = (1 - width) * (static_cast<double>(image.width) - 1) / 2};
    detail::warp_image(image, map, {fill_mode, interpolation, fill_value}, sample.x);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
