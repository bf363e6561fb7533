// Functions for map, of images, and MixUp, which blends the samples of a batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/interpolation.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/map.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// The shape of samples that are images: row by row, the channels of a pixel together.
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

/// What lies beyond the border of an image of pixels a b c d.
enum class FillMode {
  reflect,   ///< d c b a | a b c d | d c b a
  wrap,      ///< a b c d | a b c d | a b c d
  constant,  ///< fill_value
  nearest    ///< a a a a | a b c d | d d d d
};

// What is drawn here depends on seed, pass and sample, not on the number of workers and replicas.
// The functions throw ConfigurationError, when the first sample is read, for options out of their
// range, and DataError for a sample of another size.

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

/// A function for map: adds `padding` pixels of zeros at each border, and takes a part of the
/// former size at a random place (torchvision's RandomCrop with padding).
/// @code
/// from_tensor_slices(images / 255.0f, labels)
///     .shuffle(50'000)
///     .map(RandomCrop{.image = {32, 32, 3}, .padding = 4})
///     .map(RandomFlip{.image = {32, 32, 3}})
///     .batch(128)
/// @endcode
/// Use: `samples.map(RandomCrop{.image = {32, 32, 3}, .padding = 4})`.
struct RandomCrop {
  ImageShape image{};
  std::size_t padding = 0;

  [[nodiscard]] std::string description() const {
    return concat({"RandomCrop(image=", image.to_string(), ", padding=", padding, ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("RandomCrop", image, sample.x.size());
    RandomStream random(sample.key);
    // Pixel (row, column) of the result is (row + down, column + right) of the image, or zero.
    const std::ptrdiff_t down = draw(random), right = draw(random);
    const auto [top, bottom] = inside(down, image.height);
    const auto [left, end] = inside(right, image.width);
    const std::size_t row_size = image.width * image.channels;
    T* const x = sample.x.data();
    for (std::size_t i = top; i < bottom; ++i) {
      const std::size_t row =
          down >= 0 ? i : top + bottom - 1 - i;  // no row is written before it is read
      T* const to = x + row * row_size;
      const T* const from =
          x + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(row) + down) * row_size;
      if (left < end)
        std::memmove(to + left * image.channels,
                     from + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(left) + right) *
                                image.channels,
                     (end - left) * image.channels * sizeof(T));
      std::fill(to, to + left * image.channels, T(0));
      std::fill(to + end * image.channels, to + row_size, T(0));
    }
    std::fill(x, x + top * row_size, T(0));
    std::fill(x + bottom * row_size, x + image.height * row_size, T(0));
  }

 private:
  [[nodiscard]] std::ptrdiff_t draw(RandomStream& random) const {
    return static_cast<std::ptrdiff_t>(random.below(2 * padding + 1)) -
           static_cast<std::ptrdiff_t>(padding);
  }
  /// The numbers [first, end) in [0, extent) that are still there with `shift` added.
  static std::pair<std::size_t, std::size_t> inside(std::ptrdiff_t shift, std::size_t extent) {
    const std::size_t lost = std::min(extent, static_cast<std::size_t>(std::abs(shift)));
    return shift < 0 ? std::pair(lost, extent) : std::pair(std::size_t{0}, extent - lost);
  }
};

/// A function for map: mirrors every second image, on average.
/// Use: `samples.map(RandomFlip{.image = {32, 32, 3}})`.
struct RandomFlip {
  ImageShape image{};
  bool horizontal = true;  ///< left and right
  bool vertical = false;   ///< top and bottom, drawn on its own

  [[nodiscard]] std::string description() const {
    return concat({"RandomFlip(image=", image.to_string(), horizontal ? ", horizontal" : "",
                   vertical ? ", vertical" : "", ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("RandomFlip", image, sample.x.size());
    RandomStream random(sample.key);
    const bool left_right = random.below(2) == 1, top_bottom = random.below(2) == 1;
    const std::size_t row_size = image.width * image.channels;
    const auto swap = [](T* a, T* b, std::size_t n) { std::swap_ranges(a, a + n, b); };
    if (horizontal && left_right)
      for (std::size_t row = 0; row < image.height; ++row)
        for (std::size_t column = 0; column < image.width / 2; ++column) {
          T* const begin = sample.x.data() + row * row_size;
          swap(begin + column * image.channels, begin + (image.width - 1 - column) * image.channels,
               image.channels);
        }
    if (vertical && top_bottom)
      for (std::size_t row = 0; row < image.height / 2; ++row)
        swap(sample.x.data() + row * row_size,
             sample.x.data() + (image.height - 1 - row) * row_size, row_size);
  }
};

/// A function for map: turns an image about its middle, by an angle that is uniform in `factor`
/// times a full turn, counter-clockwise where it is positive (Keras's RandomRotation).
/// Use: `samples.map(RandomRotation{.image = {32, 32, 3}, .factor = 0.1})`.
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

/// A function for map: moves an image down by a part of its height that is uniform in
/// height_factor, and right by a part of its width that is uniform in width_factor (Keras's
/// RandomTranslation).
/// Use: `samples.map(RandomTranslation{.image = {32, 32, 3}, .height_factor = 0.1, .width_factor =
/// 0.1})`.
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

/// A function for map: scales an image about its middle. What was 1 + z pixels high becomes one, z
/// being uniform in height_factor: above 0 zooms out, below 0 in (Keras's RandomZoom).
/// Use: `samples.map(RandomZoom{.image = {32, 32, 3}, .height_factor = 0.1})`.
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

/// A function for map: (x - mean) * c + mean for each channel, with its mean over the image and c
/// uniform in [1 + factor.lower, 1 + factor.upper], and the result clipped to value_range (Keras's
/// RandomContrast, whose documentation promises [1 - f, 1 + f] for a single number f).
/// Use: `samples.map(RandomContrast{.image = {32, 32, 3}, .factor = 0.2})`.
struct RandomContrast {
  ImageShape image{};
  FactorRange factor = 0.0;                ///< within [-1, 1]
  FactorRange value_range = {0.0, 255.0};  ///< of the pixels; {0, 1} where they were divided by 255

  [[nodiscard]] std::string description() const {
    return concat({"RandomContrast(image=", image.to_string(), ", factor=", detail::text_of(factor),
                   ", value_range=", detail::text_of(value_range), ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("RandomContrast", image, sample.x.size());
    detail::check_factor("RandomContrast", "factor", factor, -1, 1);
    const T contrast =
        static_cast<T>(RandomStream(sample.key).uniform(1 + factor.lower, 1 + factor.upper));
    const T low = static_cast<T>(value_range.lower), high = static_cast<T>(value_range.upper);
    for (std::size_t channel = 0; channel < image.channels; ++channel) {
      double sum = 0;
      for (std::size_t i = channel; i < sample.x.size(); i += image.channels)
        sum += static_cast<double>(sample.x[i]);
      const T mean = static_cast<T>(sum / static_cast<double>(image.height * image.width));
      for (std::size_t i = channel; i < sample.x.size(); i += image.channels)
        sample.x[i] = std::min(std::max((sample.x[i] - mean) * contrast + mean, low), high);
    }
  }
};

/// A function for map: adds a normal number of this standard deviation to each element (what the
/// layer GaussianNoise does in training, done while data are read).
/// Use: `samples.map(RandomNoise{.stddev = 0.1})`. Keras: `GaussianNoise`.
struct RandomNoise {
  double stddev = 0;

  [[nodiscard]] std::string description() const {
    return concat({"RandomNoise(stddev=", stddev, ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    if (!(stddev >= 0))
      throw ConfigurationError(concat({"RandomNoise: stddev must be at least 0, got ", stddev}));
    RandomStream random(sample.key);
    for (T& value : sample.x) value += static_cast<T>(stddev * random.normal());
  }
};

/// A function for map: fills the part of a square about a random pixel that lies in the image
/// (DeVries, Taylor, "Improved regularization of convolutional neural networks with cutout", 2017).
/// Use: `samples.map(Cutout{.image = {32, 32, 3}, .size = 8})`. Keras: `RandomErasing`.
struct Cutout {
  ImageShape image{};
  std::size_t size = 0;   ///< of the square's sides, in pixels
  double fill_value = 0;  ///< best the mean of the pixels: 0 where they are normalised

  [[nodiscard]] std::string description() const {
    return concat(
        {"Cutout(image=", image.to_string(), ", size=", size, ", fill_value=", fill_value, ")"});
  }

  template <class T>
  void operator()(Sample<T>& sample) const {
    detail::require_image("Cutout", image, sample.x.size());
    if (size == 0) throw ConfigurationError("Cutout: size must be at least 1, got 0");
    RandomStream random(sample.key);
    const auto row = static_cast<std::size_t>(random.below(image.height));
    const auto column = static_cast<std::size_t>(random.below(image.width));
    const std::size_t before = size / 2, after = size - before;
    const std::size_t top = row - std::min(row, before), left = column - std::min(column, before);
    const std::size_t bottom = std::min(image.height, row + after),
                      right = std::min(image.width, column + after);
    for (std::size_t r = top; r < bottom; ++r) {
      T* const line = sample.x.data() + r * image.width * image.channels;
      std::fill(line + left * image.channels, line + right * image.channels,
                static_cast<T>(fill_value));
    }
  }
};

namespace detail {

/// Draws from Beta(alpha, alpha).
[[nodiscard]] double symmetric_beta(RandomStream& random, double alpha);

/// A batch of pairs: each sample, a second one of the batch, and the key of their weight.
void pair_samples(ElementSpan own, RandomKey key, ElementBatch& pairs);

/// The weights of such pairs.
void draw_weights(ElementSpan pairs, double alpha, std::vector<double>& weights);

}  // namespace detail

/// Blends each sample of a batch, and its target, with another: w * own + (1 - w) * other, w of
/// Beta(alpha, alpha) for each sample, the others being the batch in another order (Keras's MixUp;
/// Zhang et al., "mixup: beyond empirical risk minimization", 2018). Targets must be numbers that
/// can be blended: probabilities of classes, not their numbers. Each rank reads two samples for
/// one.
/// @code
/// images.shuffle(60'000).batch(128).apply<MixUp>(0.2)
/// @endcode
/// Use: `samples.batch(32).apply<MixUp>(0.2)`.
template <class Upstream>
class MixUp : public Transform<Upstream> {
  static_assert(
      std::is_same_v<typename Upstream::item_type, ElementBatch>,
      "lockstep: MixUp blends the samples of a batch: write .apply<MixUp>(alpha) after .batch(n)");
  using Transform<Upstream>::upstream_;

 public:
  using item_type = ElementBatch;

  /// Without a seed, the run's is used. Throws ConfigurationError unless alpha is above 0.
  explicit MixUp(Upstream upstream, double alpha = 0.2, std::optional<std::uint64_t> seed = {})
      : Transform<Upstream>(std::move(upstream)), alpha_(alpha), seed_(seed) {
    if (!(alpha > 0) || !std::isfinite(alpha))
      throw ConfigurationError(concat({"MixUp: alpha must be above 0, got ", alpha}));
  }

  void begin(Pass pass) {
    upstream_.begin(pass);
    key_ = seed_ ? RandomKey(*seed_) : RandomKey(pass.seed).fold_in(MixUp::depth);
    key_ = key_.fold_in(pass.path.value());
    position_ = 0;
  }

  bool next(ElementBatch& batch) {
    if (!upstream_.next(own_)) return false;
    detail::pair_samples(own_, key_.fold_in(static_cast<std::uint64_t>(position_++)), batch);
    return true;
  }

  std::int64_t advance(std::int64_t n) {
    const std::int64_t moved = upstream_.advance(n);
    position_ += moved;
    return moved;
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add({"MixUp(", alpha_, seed_ ? concat({", seed ", *seed_}) : std::string(), ")"});
  }

  template <class T>
  void read(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
    const std::size_t count = samples.indices.size();
    detail::parts_numbered(samples, 0, own_);
    upstream_.read(own_, x, y);
    detail::parts_numbered(samples, 1, own_);
    const TensorView<T> other_x = samples_.template view<T>(count, x.features());
    const TensorView<T> other_y = targets_.template view<T>(count, y.features());
    upstream_.read(own_, other_x, other_y);
    detail::draw_weights(samples, alpha_, weights_);
    blend(x, other_x);
    blend(y, other_y);
  }

 private:
  template <class T>
  void blend(TensorView<T> own, TensorView<T> other) const {
    for (std::size_t f = 0; f < own.features(); ++f)
      for (std::size_t i = 0; i < own.samples(); ++i) {
        const T weight = static_cast<T>(weights_[i]);
        own(i, f) = weight * own(i, f) + (1 - weight) * other(i, f);
      }
  }

  double alpha_;
  std::optional<std::uint64_t> seed_;
  RandomKey key_{};
  std::int64_t position_ = 0;
  ElementBatch own_;
  std::vector<double> weights_;
  detail::Scratch samples_;
  detail::Scratch targets_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/augmentation.ipp"
#endif
