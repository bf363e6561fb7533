// A function for every sample.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/stage.hpp"
#include "lockstep/data/tensor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What the function of map works on. T is the scalar type of the model: float or double.
template <class T>
struct Sample {
  std::span<T> x;  ///< the elements of the sample, row-major
  std::span<T> y;  ///< those of its target, without weights; empty when the source has no targets
  std::int64_t index = 0;  ///< number of the sample in the source
  /// for random augmentation: depends on the seed, the iteration, the repetition and index
  RandomKey key{};
  std::span<T>
      weights{};  ///< of the sample in loss and weighted metrics; empty when the source has none
};

/// Elements per sample, per target and of its weights.
struct SampleSizes {
  std::size_t sample_size = 0;
  std::size_t target_size = 0;
  std::optional<std::size_t> weight_size =
      std::nullopt;  ///< default: those of the source, as they are
};

namespace detail {

/// A function object that can also be assigned: lambdas that capture something cannot.
template <class F>
class Assignable {
 public:
  explicit Assignable(F f) : f_(std::move(f)) {}
  Assignable(const Assignable&) = default;
  Assignable(Assignable&&) noexcept(std::is_nothrow_move_constructible_v<F>) = default;
  Assignable& operator=(const Assignable& other) {
    if (this != &other) f_.emplace(*other.f_);
    return *this;
  }
  Assignable& operator=(Assignable&& other) noexcept(std::is_nothrow_move_constructible_v<F>) {
    if (this != &other) f_.emplace(std::move(*other.f_));
    return *this;
  }
  F& operator*() noexcept { return *f_; }
  const F& operator*() const noexcept { return *f_; }

 private:
  std::optional<F> f_;
};

[[nodiscard]] inline RandomKey sample_key(ElementSpan samples, std::size_t i,
                                          std::uint64_t depth) noexcept {
  return RandomKey(samples.passes[i])
      .fold_in(static_cast<std::uint64_t>(samples.indices[i]))
      .fold_in(depth);
}

}  // namespace detail

/// Calls `f(sample)` for every sample when it is read, after its conversion: f changes it in place.
/// Its shape stays. f takes `auto&`, or Sample<float>& or Sample<double>& where it is written for
/// one of them. What its `description()` says, if it has one, is compared between workers. Copies
/// of the pipeline hold copies of f and may run in different threads, so f must not change what
/// they share.
template <class Upstream, class F>
class Map : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;

 public:
  Map(Upstream upstream, F f) : Transform<Upstream>(std::move(upstream)), f_(std::move(f)) {
    static_assert(
        takes<float> || takes<double>,
        "lockstep: the function of map(f) must be callable as f(lockstep::Sample<T>&), T being "
        "float or double; "
        "to change the sizes of samples use map(f, {.sample_size = ..., .target_size = ...})");
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    if constexpr (requires(const F& f) { f.description(); })
      description.add({"map(", (*f_).description(), ")"});
    else
      description.add({"map"});
  }

  template <class T>
  void read(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
    using U = std::conditional_t<takes<T>, T, std::conditional_t<takes<float>, float, double>>;
    constexpr std::size_t tile = batch_multiple;
    const std::size_t count = samples.indices.size();
    const std::size_t x_size = this->sample_size();
    const std::size_t y_size = this->target_size(), w_size = this->weight_size();
    // f may need the target even where the caller does not.
    if (y.empty()) y = targets_.template view<T>(count, y_size);
    upstream_.read(samples, x, y);

    U* xs = tile_.template get<U>(tile * (x_size + y_size));
    U* ys = xs + tile * x_size;
    for (std::size_t first = 0; first < count; first += tile) {
      const std::size_t filled = std::min(tile, count - first);
      detail::copy_out<T>(x, first, filled, xs);
      detail::copy_out<T>(y, first, filled, ys);
      for (std::size_t s = 0; s < filled; ++s) {
        Sample<U> sample{{xs + s * x_size, x_size},
                         {ys + s * y_size, y_size - w_size},
                         samples.indices[first + s],
                         detail::sample_key(samples, first + s, Map::depth),
                         {ys + (s + 1) * y_size - w_size, w_size}};
        (*f_)(sample);
      }
      detail::copy_in<T>(xs, x, first, filled);
      detail::copy_in<T>(ys, y, first, filled);
    }
  }

 private:
  template <class T>
  static constexpr bool takes = std::invocable<F&, Sample<T>&>;

  detail::Assignable<F> f_;
  detail::Scratch tile_;
  detail::Scratch targets_;
};

/// Calls `f(in, out)` for every sample when it is read: out has its own sizes and is flat, and f
/// writes all of it but the weights, which are those of the source, or 1 where sizes asks for some.
/// f takes `const auto&, auto&`, or the samples of one scalar type.
template <class Upstream, class F>
class MapTo : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;

 public:
  MapTo(Upstream upstream, F f, SampleSizes sizes)
      : Transform<Upstream>(std::move(upstream)), f_(std::move(f)), sizes_(sizes) {
    static_assert(takes<float> || takes<double>,
                  "lockstep: the function of map(f, sizes) must be callable as f(const "
                  "lockstep::Sample<const T>& in, "
                  "lockstep::Sample<T>& out), T being float or double");
  }

  [[nodiscard]] std::size_t sample_size() const { return sizes_.sample_size; }
  [[nodiscard]] std::size_t target_size() const { return sizes_.target_size + weight_size(); }
  [[nodiscard]] std::size_t weight_size() const {
    return sizes_.weight_size.value_or(detail::weight_size_of(upstream_));
  }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return {sizes_.sample_size}; }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add(
        {"map(to (", sizes_.sample_size, "), targets (", sizes_.target_size, ")",
         sizes_.weight_size ? concat({", weights (", *sizes_.weight_size, ")"}) : std::string(),
         ")"});
  }

  template <class T>
  void read(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
    using U = std::conditional_t<takes<T>, T, std::conditional_t<takes<float>, float, double>>;
    constexpr std::size_t tile = batch_multiple;
    const std::size_t count = samples.indices.size();
    const std::size_t in_x = upstream_.sample_size();
    const std::size_t in_y = upstream_.target_size(), in_w = detail::weight_size_of(upstream_);
    const std::size_t out_x = sizes_.sample_size, out_y = target_size(), out_w = weight_size();
    const bool keeps_weights = !sizes_.weight_size;
    const TensorView<T> upstream_x = inputs_.template view<T>(count, in_x);
    const TensorView<T> upstream_y = targets_.template view<T>(count, in_y);
    upstream_.read(samples, upstream_x, upstream_y);

    U* from_x = tile_.template get<U>(tile * (in_x + in_y + out_x + out_y));
    U* from_y = from_x + tile * in_x;
    U* to_x = from_y + tile * in_y;
    U* to_y = to_x + tile * out_x;
    for (std::size_t first = 0; first < count; first += tile) {
      const std::size_t filled = std::min(tile, count - first);
      detail::copy_out<T>(upstream_x, first, filled, from_x);
      detail::copy_out<T>(upstream_y, first, filled, from_y);
      for (std::size_t s = 0; s < filled; ++s) {
        const std::int64_t index = samples.indices[first + s];
        const RandomKey key = detail::sample_key(samples, first + s, MapTo::depth);
        const std::span<const U> weights(from_y + (s + 1) * in_y - in_w, in_w);
        const Sample<const U> in{
            {from_x + s * in_x, in_x}, {from_y + s * in_y, in_y - in_w}, index, key, weights};
        Sample<U> out{{to_x + s * out_x, out_x},
                      {to_y + s * out_y, out_y - out_w},
                      index,
                      key,
                      {to_y + (s + 1) * out_y - out_w, out_w}};
        if (keeps_weights)
          std::copy(weights.begin(), weights.end(), out.weights.begin());
        else
          std::fill(out.weights.begin(), out.weights.end(), U(1));
        (*f_)(in, out);
      }
      detail::copy_in<T>(to_x, x, first, filled);
      if (!y.empty()) detail::copy_in<T>(to_y, y, first, filled);
    }
  }

 private:
  template <class T>
  static constexpr bool takes = std::invocable<F&, const Sample<const T>&, Sample<T>&>;

  detail::Assignable<F> f_;
  SampleSizes sizes_;
  detail::Scratch tile_;
  detail::Scratch inputs_;
  detail::Scratch targets_;
};

}}  // namespace lockstep
