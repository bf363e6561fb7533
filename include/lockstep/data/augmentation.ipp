#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/augmentation.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The pixel that stands for the one at `at`, or -1 for the fill value.
inline std::int64_t pixel_at(std::int64_t at, std::int64_t extent, FillMode mode) noexcept {
  if (at >= 0 && at < extent) return at;
  switch (mode) {
    case FillMode::constant:
      return -1;
    case FillMode::nearest:
      return at < 0 ? 0 : extent - 1;
    case FillMode::wrap: {
      const std::int64_t rest = at % extent;
      return rest < 0 ? rest + extent : rest;
    }
    case FillMode::reflect:
      break;
  }
  const std::int64_t period = 2 * extent;
  const std::int64_t rest = (at % period + period) % period;
  return rest < extent ? rest : period - 1 - rest;
}

template <class T>
void warp(const ImageShape& image, const AffineMap& map, const WarpOptions& options,
          std::span<T> x) {
  const std::vector<T> from(x.begin(), x.end());
  const auto height = static_cast<std::int64_t>(image.height),
             width = static_cast<std::int64_t>(image.width);
  const std::size_t channels = image.channels;
  const T fill = static_cast<T>(options.fill_value);
  const auto pixel = [&](std::int64_t row, std::int64_t column) -> const T* {
    const std::int64_t r = pixel_at(row, height, options.fill_mode),
                       c = pixel_at(column, width, options.fill_mode);
    return r < 0 || c < 0 ? nullptr
                          : from.data() + static_cast<std::size_t>(r * width + c) * channels;
  };
  // Far outside all is border: bounds keep the conversions to integers defined.
  constexpr double farthest = 1e9;
  T* to = x.data();
  for (std::size_t i = 0; i < image.height; ++i)
    for (std::size_t j = 0; j < image.width; ++j, to += channels) {
      const auto r = static_cast<double>(i), c = static_cast<double>(j);
      const double row = std::clamp(map.row_by_row * r + map.row_by_column * c + map.row_shift,
                                    -farthest, farthest);
      const double column = std::clamp(
          map.column_by_row * r + map.column_by_column * c + map.column_shift, -farthest, farthest);
      if (options.interpolation == Interpolation::nearest) {
        const T* const one = pixel(std::llround(row), std::llround(column));
        for (std::size_t k = 0; k < channels; ++k) to[k] = one != nullptr ? one[k] : fill;
        continue;
      }
      const double top = std::floor(row), left = std::floor(column);
      const T down = static_cast<T>(row - top), right = static_cast<T>(column - left);
      const auto t = static_cast<std::int64_t>(top), l = static_cast<std::int64_t>(left);
      const T *const a = pixel(t, l), *const b = pixel(t, l + 1);
      const T *const d = pixel(t + 1, l), *const e = pixel(t + 1, l + 1);
      for (std::size_t k = 0; k < channels; ++k) {
        const T upper =
            (1 - right) * (a != nullptr ? a[k] : fill) + right * (b != nullptr ? b[k] : fill);
        const T lower =
            (1 - right) * (d != nullptr ? d[k] : fill) + right * (e != nullptr ? e[k] : fill);
        to[k] = (1 - down) * upper + down * lower;
      }
    }
}

LOCKSTEP_INLINE void warp_image(const ImageShape& image, const AffineMap& map,
                                const WarpOptions& options, std::span<float> x) {
  warp(image, map, options, x);
}
LOCKSTEP_INLINE void warp_image(const ImageShape& image, const AffineMap& map,
                                const WarpOptions& options, std::span<double> x) {
  warp(image, map, options, x);
}

LOCKSTEP_INLINE void check_factor(std::string_view caller, std::string_view name,
                                  FactorRange factor, double least, double most) {
  if (!(factor.lower <= factor.upper) || !(factor.lower >= least) || !(factor.upper <= most))
    throw ConfigurationError(concat({caller, ": ", name, " must be a range within [", least, ", ",
                                     most, "], got [", factor.lower, ", ", factor.upper, "]"}));
}

LOCKSTEP_INLINE std::string text_of(FactorRange factor) {
  return concat({"[", factor.lower, ", ", factor.upper, "]"});
}

LOCKSTEP_INLINE std::string text_of(const WarpOptions& options) {
  std::string text;
  switch (options.fill_mode) {
    case FillMode::reflect:
      text = ", reflect";
      break;
    case FillMode::wrap:
      text = ", wrap";
      break;
    case FillMode::constant:
      text = concat({", constant ", options.fill_value});
      break;
    case FillMode::nearest:
      text = ", nearest";
      break;
  }
  return text + (options.interpolation == Interpolation::nearest ? ", nearest" : ", bilinear");
}

// As two gamma variables: Marsaglia, Tsang, "A simple method for generating gamma variables", 2000.
// In logarithms, since those of a small alpha are tiny.
LOCKSTEP_INLINE double symmetric_beta(RandomStream& random, double alpha) {
  const auto log_gamma_variable = [&] {
    const double d = alpha + 1 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = random.normal();
      const double root = 1 + c * x, u = 1 - random.uniform();
      if (root <= 0) continue;
      const double v = root * root * root;
      if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v))
        return std::log(d * v) + std::log(1 - random.uniform()) / alpha;
    }
  };
  const double a = log_gamma_variable(), b = log_gamma_variable();
  return 1 / (1 + std::exp(b - a));
}

LOCKSTEP_INLINE void pair_samples(ElementSpan own, RandomKey key, ElementBatch& pairs) {
  const std::size_t count = own.indices.size();
  RandomStream random(key);
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  for (std::size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(i))]);
  pairs.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const Element parts[] = {
        own.element(i), own.element(order[i]), {.pass = key.fold_in(i).value()}};
    pairs.push_back(own.indices[i], rekeyed(own.passes[i], "MixUp"), parts);
  }
}

LOCKSTEP_INLINE void draw_weights(ElementSpan pairs, double alpha, std::vector<double>& weights) {
  weights.resize(pairs.parts.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    RandomStream random(RandomKey(pairs.parts[i][2].pass));
    weights[i] = symmetric_beta(random, alpha);
  }
}

}}}  // namespace lockstep::detail
