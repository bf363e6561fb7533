// Discretization: which of several bins a value is in.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/initializers.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Boundaries of bins, in increasing order: `Bins{0.0, 10.0, 100.0}`.
template <std::size_t Count>
struct Bins {
  double value[Count];

  template <class... Numbers>
    requires(sizeof...(Numbers) == Count)
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Bins(Numbers... numbers) : value{static_cast<double>(numbers)...} {}
};
template <class... Numbers>
Bins(Numbers...) -> Bins<sizeof...(Numbers)>;

/// Compile-time options of a Discretization that learns; the default is Keras's.
struct DiscretizationOptions {
  double epsilon = 0.01;  ///< the greatest error of a boundary, as a share of the values
};

namespace detail {

/// The bin of each of `size` values: how many boundaries are not above it.
template <class T, class Boundaries>
void find_bins(std::size_t size, const Boundaries& boundaries, const T* values, T* bins) {
  const auto most = static_cast<T>(std::size(boundaries));
  kernels::sweep(
      size,
      [most, &boundaries](const auto& x, auto& bin) LOCKSTEP_KERNEL_LAMBDA {
        using P = std::remove_cvref_t<decltype(x)>;
        bin = P(most);
        for (const auto boundary : boundaries)
          bin = bin - select(x < P(static_cast<T>(boundary)), P(T(1)), P(T(0)));
      },
      values, bins);
}

/// Boundaries that no step changes.
constexpr Variable bin_boundaries(std::size_t count) {
  Variable variable{"bin_boundaries", {count}, zeros};
  variable.is_constant = true;
  return variable;
}

}  // namespace detail

/// The number of the bin that each value of samples of any shape is in, for an Embedding: 0 below
/// the first boundary, i from boundary i - 1 on to below boundary i, and as many as there are
/// boundaries from the last one on, and for NaN. Keras's output_mode "int"; for the others, a
/// CategoryEncoding. No gradient goes through it.
///
/// With a number of bins in place of Bins, Model::adapt learns the boundaries, so that as many
/// values of the data are in each bin. A variable that is not trained: bin_boundaries [bins - 1],
/// at first 0. They are those of Keras for the data in one array, the same on any number of
/// workers. Of fewer values than bins, the last boundaries are infinite.
/// Use: `Discretization<Bins{0.0, 10.0, 100.0}>`: Shape<3> -> Shape<3>. Keras:
/// `Discretization(bin_boundaries=[0, 10, 100])`; `Discretization<10>` for `num_bins=10`.
template <auto Boundaries, DiscretizationOptions Options = DiscretizationOptions{}>
struct Discretization {
  static_assert(std::ranges::adjacent_find(Boundaries.value, std::greater_equal{}) ==
                    std::end(Boundaries.value),
                "lockstep: the boundaries of Discretization are in increasing order, none twice");

  static constexpr std::string_view name = "discretization";
  static constexpr bool keeps_padding = true;
  static constexpr std::size_t bins = std::size(Boundaries.value) + 1;  ///< for Embedding

  template <class In>
  using Output = In;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::find_bins(In::size * pass.x.stride(), Boundaries.value, pass.x.data(), pass.y.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    std::fill_n(pass.dx.data(), In::size * pass.dx.stride(), T(0));
  }
};

template <std::integral auto NumBins, DiscretizationOptions Options>
struct Discretization<NumBins, Options> {
  static_assert(NumBins >= 2, "lockstep: Discretization needs two bins or more");
  static_assert(
      Options.epsilon >= 1e-4 && Options.epsilon < 1,
      "lockstep: the epsilon of Discretization is from 1e-4, which takes 164 MB to adapt, "
      "to 1");

  static constexpr std::string_view name = "discretization";
  static constexpr bool keeps_padding = true;
  static constexpr std::size_t bins = static_cast<std::size_t>(NumBins);

  template <class In>
  using Output = In;

  template <class In>
  static constexpr std::array state_variables{detail::bin_boundaries(bins - 1)};

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    if (pass.context.moments) tell_values<In>(pass);
    detail::find_bins(In::size * pass.x.stride(), pass.state[0], pass.x.data(), pass.y.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    std::fill_n(pass.dx.data(), In::size * pass.dx.stride(), T(0));
  }

 private:
  template <class In, class T>
  static void tell_values(const ForwardPass<T>& pass) {
    std::vector<float> values;
    for (std::size_t f = 0; f < In::size; ++f)
      for (std::size_t sample = 0; sample < pass.x.samples(); ++sample)
        values.push_back(static_cast<float>(pass.x(sample, f)));
    pass.context.moments(InputValues{.values = values,
                                     .epsilon = Options.epsilon,
                                     .boundaries = bins - 1,
                                     .boundaries_variable = pass.state[0].data()});
  }
};

}}  // namespace lockstep
