#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/datasets/synthetic_digits.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail::digits {

struct Point {
  double x = 0;
  double y = 0;
};

/// A pen movement in the unit square (y points down): straight lines, or a smooth curve, through
/// the points.
struct Stroke {
  bool smooth = false;
  std::size_t count = 0;
  std::array<Point, 14> points{};
};

/// One way to write a digit.
struct Glyph {
  std::uint8_t digit = 0;
  std::size_t count = 0;
  std::array<Stroke, 3> strokes{};
};

inline constexpr std::array<Glyph, 17> glyphs{{
    {0,
     1,
     {{{true,
        9,
        {{{.5, .04},
          {.76, .2},
          {.84, .5},
          {.76, .8},
          {.5, .96},
          {.24, .8},
          {.16, .5},
          {.24, .2},
          {.5, .04}}}}}}},
    {0,
     1,
     {{{true,
        9,
        {{{.58, .04},
          {.74, .22},
          {.74, .52},
          {.62, .84},
          {.44, .96},
          {.27, .8},
          {.26, .48},
          {.38, .16},
          {.6, .05}}}}}}},
    {1, 1, {{{false, 2, {{{.5, .04}, {.5, .96}}}}}}},
    {1, 1, {{{false, 3, {{{.3, .26}, {.53, .05}, {.53, .96}}}}}}},
    {1,
     2,
     {{{
           false,
           3,
           {{{.32, .22}, {.52, .05}, {.52, .95}}},
       },
       {false, 2, {{{.3, .95}, {.75, .95}}}}}}},
    {2,
     2,
     {{{true,
        8,
        {{{.2, .26},
          {.3, .1},
          {.5, .04},
          {.72, .12},
          {.78, .3},
          {.66, .52},
          {.42, .74},
          {.19, .94}}}},
       {false, 2, {{{.19, .94}, {.83, .94}}}}}}},
    {2,
     1,
     {{{true,
        11,
        {{{.2, .22},
          {.42, .05},
          {.68, .1},
          {.75, .3},
          {.6, .55},
          {.38, .82},
          {.24, .92},
          {.18, .82},
          {.3, .76},
          {.55, .88},
          {.86, .9}}}}}}},
    {3,
     2,
     {{{true, 6, {{{.22, .14}, {.46, .04}, {.7, .12}, {.75, .28}, {.62, .43}, {.42, .48}}}},
       {true, 6, {{{.42, .48}, {.7, .55}, {.8, .73}, {.68, .9}, {.44, .96}, {.19, .86}}}}}}},
    {4,
     2,
     {{{false, 3, {{{.62, .05}, {.17, .64}, {.86, .64}}}},
       {false, 2, {{{.63, .05}, {.63, .96}}}}}}},
    {4,
     2,
     {{{false, 3, {{{.26, .08}, {.2, .55}, {.8, .52}}}}, {false, 2, {{{.74, .08}, {.68, .96}}}}}}},
    {5,
     2,
     {{{false, 3, {{{.79, .07}, {.32, .07}, {.26, .46}}}},
       {true,
        7,
        {{{.26, .46}, {.5, .38}, {.74, .48}, {.81, .69}, {.69, .88}, {.44, .96}, {.19, .86}}}}}}},
    {6,
     1,
     {{{true,
        11,
        {{{.7, .05},
          {.45, .2},
          {.27, .44},
          {.2, .7},
          {.32, .91},
          {.54, .96},
          {.75, .86},
          {.79, .69},
          {.64, .54},
          {.42, .55},
          {.24, .72}}}}}}},
    {7, 1, {{{false, 3, {{{.18, .08}, {.82, .08}, {.44, .96}}}}}}},
    {7,
     2,
     {{{true, 6, {{{.17, .14}, {.4, .08}, {.8, .09}, {.7, .3}, {.55, .6}, {.46, .96}}}},
       {false, 2, {{{.36, .52}, {.76, .5}}}}}}},
    {8,
     1,
     {{{true,
        13,
        {{{.5, .48},
          {.29, .35},
          {.28, .16},
          {.5, .04},
          {.72, .16},
          {.71, .35},
          {.5, .48},
          {.25, .63},
          {.21, .83},
          {.5, .96},
          {.79, .83},
          {.75, .63},
          {.5, .48}}}}}}},
    {9,
     1,
     {{{true,
        10,
        {{{.76, .28},
          {.66, .46},
          {.43, .5},
          {.25, .37},
          {.28, .15},
          {.5, .04},
          {.7, .12},
          {.77, .3},
          {.74, .62},
          {.62, .96}}}}}}},
    {9,
     2,
     {{{true,
        8,
        {{{.74, .24},
          {.64, .46},
          {.42, .5},
          {.24, .36},
          {.28, .14},
          {.5, .05},
          {.7, .12},
          {.74, .24}}}},
       {false, 2, {{{.75, .1}, {.73, .96}}}}}}},
}};

// Only + - * / and sqrt, which IEEE 754 rounds exactly: sine, cosine and logarithm differ between C
// libraries. What a compiler may still change (multiply-add) is below the last bit, and the pixels
// are rounded to bytes in the end.

/// How far a digit strays from the pattern. Lengths are in pixels, but for the jitter of points
/// (unit square).
struct Hand {
  double rotation;     ///< largest, in radians (nearly)
  double shear;        ///< largest
  double translation;  ///< largest
  double min_scale;    ///< height of the digit
  double max_scale;
  double min_aspect;  ///< width of the unit square, relative to its height
  double max_aspect;
  double jitter;  ///< largest, of each point
};

// Most digits stand in the middle, as MNIST's do, so that a few steps of plain gradient descent
// already learn something. The others are what a linear model cannot follow: it needs a weight for
// each place where a stroke may be.
inline constexpr Hand neat{0.12, 0.2, 0.7, 19.0, 22.0, 0.8, 1.0, 0.045};
inline constexpr Hand sloppy{0.25, 0.3, 3.2, 18.0, 22.0, 0.7, 1.15, 0.05};
inline constexpr double sloppy_share = 0.35;

// The radius of the pen in pixels; ink and noise of 255.
inline constexpr double min_radius = 1.4;
inline constexpr double max_radius = 2.4;
inline constexpr double min_ink = 230.0;
inline constexpr double max_ink = 255.0;
inline constexpr double largest_noise = 40.0;
inline constexpr std::uint64_t most_clutter = 4;

inline constexpr std::size_t curve_steps = 4;

/// The strength of the ink at each pixel, 0 .. 255.
using Canvas = std::array<double, SyntheticDigits::height * SyntheticDigits::width>;

/// Draws a line with a round pen whose edge is one pixel wide; where lines overlap, the stronger
/// counts.
LOCKSTEP_INLINE void draw_line(Canvas& canvas, Point a, Point b, double radius, double ink) {
  const double reach = radius + 0.5;
  const double core = std::max(radius - 0.5, 0.0);
  const auto clamp = [](double v, std::size_t extent) {
    return static_cast<std::size_t>(std::clamp(v, 0.0, static_cast<double>(extent - 1)));
  };
  const std::size_t left = clamp(std::min(a.x, b.x) - reach, SyntheticDigits::width);
  const std::size_t right = clamp(std::max(a.x, b.x) + reach + 1, SyntheticDigits::width);
  const std::size_t top = clamp(std::min(a.y, b.y) - reach, SyntheticDigits::height);
  const std::size_t bottom = clamp(std::max(a.y, b.y) + reach + 1, SyntheticDigits::height);
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double inverse = 1 / std::max(dx * dx + dy * dy, 1e-12);
  for (std::size_t row = top; row <= bottom; ++row)
    for (std::size_t column = left; column <= right; ++column) {
      const double px = static_cast<double>(column) - a.x;
      const double py = static_cast<double>(row) - a.y;
      const double t = std::clamp((px * dx + py * dy) * inverse, 0.0, 1.0);
      const double ex = px - t * dx;
      const double ey = py - t * dy;
      const double distance2 = ex * ex + ey * ey;
      if (distance2 >= reach * reach) continue;
      const double cover = distance2 <= core * core ? 1.0 : reach - std::sqrt(distance2);
      double& pixel = canvas[row * SyntheticDigits::width + column];
      pixel = std::max(pixel, ink * cover);
    }
}

/// A point of the Catmull-Rom spline between b and c.
LOCKSTEP_INLINE Point spline(Point a, Point b, Point c, Point d, double t) {
  const auto along = [t](double p, double q, double r, double s) {
    return 0.5 * (2 * q + (r - p) * t + (2 * p - 5 * q + 4 * r - s) * t * t +
                  (3 * q - p - 3 * r + s) * t * t * t);
  };
  return {along(a.x, b.x, c.x, d.x), along(a.y, b.y, c.y, d.y)};
}

LOCKSTEP_INLINE void draw_stroke(Canvas& canvas, std::span<const Point> points, bool smooth,
                                 double radius, double ink) {
  const std::size_t last = points.size() - 1;
  for (std::size_t i = 0; i < last; ++i) {
    if (!smooth) {
      draw_line(canvas, points[i], points[i + 1], radius, ink);
      continue;
    }
    Point from = points[i];
    for (std::size_t step = 1; step <= curve_steps; ++step) {
      const Point to = spline(points[i == 0 ? 0 : i - 1], points[i], points[i + 1],
                              points[std::min(i + 2, last)],
                              static_cast<double>(step) / static_cast<double>(curve_steps));
      draw_line(canvas, from, to, radius, ink);
      from = to;
    }
  }
}

/// One of the ways to write the digit.
LOCKSTEP_INLINE const Glyph& choose_glyph(std::uint8_t digit, RandomStream& random) {
  std::size_t first = 0;
  while (glyphs[first].digit != digit) ++first;
  std::size_t ways = 1;
  while (first + ways < glyphs.size() && glyphs[first + ways].digit == digit) ++ways;
  return glyphs[first + random.below(ways)];
}

LOCKSTEP_INLINE void draw_digit(Canvas& canvas, std::uint8_t digit, RandomStream& random) {
  const Hand& hand = random.uniform() < sloppy_share ? sloppy : neat;
  const double half = 0.5 * random.uniform(-hand.rotation, hand.rotation);
  const double cosine = (1 - half * half) / (1 + half * half);
  const double sine = 2 * half / (1 + half * half);
  const double shear = random.uniform(-hand.shear, hand.shear);
  const double scale_y = random.uniform(hand.min_scale, hand.max_scale);
  const double scale_x = scale_y * random.uniform(hand.min_aspect, hand.max_aspect);
  const double center_x = 13.5 + random.uniform(-hand.translation, hand.translation);
  const double center_y = 13.5 + random.uniform(-hand.translation, hand.translation);
  const double radius = random.uniform(min_radius, max_radius);
  const double ink = random.uniform(min_ink, max_ink);

  const Glyph& glyph = choose_glyph(digit, random);
  for (std::size_t s = 0; s < glyph.count; ++s) {
    const Stroke& stroke = glyph.strokes[s];
    std::array<Point, 14> points;
    for (std::size_t i = 0; i < stroke.count; ++i) {
      const double y =
          scale_y * (stroke.points[i].y - 0.5 + random.uniform(-hand.jitter, hand.jitter));
      const double x =
          scale_x * (stroke.points[i].x - 0.5 + random.uniform(-hand.jitter, hand.jitter)) -
          shear * y;
      points[i] = {center_x + cosine * x - sine * y, center_y + sine * x + cosine * y};
    }
    draw_stroke(canvas, {points.data(), stroke.count}, stroke.smooth, radius, ink);
  }
}

/// Short lines, as of a neighbour's handwriting.
LOCKSTEP_INLINE void draw_clutter(Canvas& canvas, RandomStream& random) {
  for (std::uint64_t left = random.below(most_clutter + 1); left > 0; --left) {
    const Point from{random.uniform(-1, 29), random.uniform(-1, 29)};
    const Point to{from.x + random.uniform(-5, 5), from.y + random.uniform(-5, 5)};
    const double radius = random.uniform(0.4, 1.1);
    const double ink = random.uniform(80, 240);
    draw_line(canvas, from, to, radius, ink);
  }
}

}  // namespace detail::digits

LOCKSTEP_INLINE std::uint8_t SyntheticDigits::draw(std::uint64_t number, Image image) const {
  namespace digits = detail::digits;
  RandomStream random(RandomKey(seed_).fold_in(number));
  const auto digit = static_cast<std::uint8_t>(random.below(10));
  digits::Canvas canvas{};
  digits::draw_digit(canvas, digit, random);
  digits::draw_clutter(canvas, random);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < image.size(); ++i) {
    if (i % 4 == 0) bits = random();
    const double noise =
        (static_cast<double>(bits >> 8 * (i % 4) & 0xFF) - 127.5) / 127.5 * digits::largest_noise;
    image[i] = static_cast<std::uint8_t>(std::lround(std::clamp(canvas[i] + noise, 0.0, 255.0)));
  }
  return digit;
}

LOCKSTEP_INLINE ImageDataset make_synthetic_digits(SyntheticDigitsOptions options) {
  constexpr std::size_t pixels = SyntheticDigits::height * SyntheticDigits::width;
  const auto make = [](std::uint64_t seed, std::size_t count) {
    const SyntheticDigits digits(seed);
    std::vector<std::uint8_t> images(count * pixels);
    std::vector<std::uint8_t> labels(count);
    for (std::size_t i = 0; i < count; ++i)
      labels[i] = digits.draw(i, SyntheticDigits::Image(images.data() + i * pixels, pixels));
    return LabelledImages{Tensor<std::uint8_t>(std::move(images), {count, SyntheticDigits::height,
                                                                   SyntheticDigits::width}),
                          Tensor<std::uint8_t>(std::move(labels))};
  };
  const RandomKey key(options.seed);
  return {make(key.fold_in(0).value(), options.train), make(key.fold_in(1).value(), options.test)};
}

}}  // namespace lockstep
