// Images that are moved at random.
#pragma once

#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/interpolation.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/image_shape.hpp"
#include "lockstep/data/image_warp.hpp"
#include "lockstep/data/map.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A function for map: moves an image down by a part of its height that is uniform in
/// height_factor, and right by a part of its width that is uniform in width_factor (Keras's
/// RandomTranslation). Throws ConfigurationError, when the first sample is read, for a range that
/// is none, and DataError for a sample of another size. What is drawn depends on seed, pass and
/// sample, not on the number of workers and replicas.
struct RandomTranslation {
  ImageShape image{};
  FactorRange height_factor = 0.0;  ///< within [-1, 1]; below 0: up
  FactorRange width_factor = 0.0;   ///< within [-1, 1]; below 0: left
  FillMode fill_mode = FillMode::reflect;
  Interpolation interpolation = Interpolation::bilinear;
  double fill_value = 0;  ///< for FillMode::constant

  [[nodiscard]] std::string description() const {
    return concat({"RandomTranslation(image=", image.to_string(), ", height_factor=",
                   detail::text_of(height_factor), ", width_factor=", detail::text_of(width_factor),
                   detail::text_of(detail::WarpOptions{fill_mode, interpolation, fill_value}),
                   ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("RandomTranslation", image, sample.x.size());
    detail::check_factor("RandomTranslation", "height_factor", height_factor, -1, 1);
    detail::check_factor("RandomTranslation", "width_factor", width_factor, -1, 1);
    RandomStream random(sample.key);
    const double down = random.uniform(height_factor.lower, height_factor.upper);
    const double right = random.uniform(width_factor.lower, width_factor.upper);
    const detail::AffineMap map{.row_shift = -down * static_cast<double>(image.height),
                                .column_shift = -right * static_cast<double>(image.width)};
    detail::warp_image(image, map, {fill_mode, interpolation, fill_value}, sample.x);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI
