// Discretization: which of several bins a value is in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/concepts.hpp"
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

/// The number of the bin that each value of samples of any shape is in, for an Embedding: 0 below
/// the first boundary, i from boundary i - 1 on to below boundary i, and as many as there are
/// boundaries from the last one on, and for NaN. Keras's output_mode "int". No gradient goes
/// through it.
/// Use: `Discretization<Bins{0.0, 10.0, 100.0}>`: Shape<3> -> Shape<3>. Keras:
/// `Discretization(bin_boundaries=[0, 10, 100])`.
template <Bins Boundaries>
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
    kernels::sweep(
        In::size * pass.x.stride(),
        [](const auto& x, auto& bin) LOCKSTEP_KERNEL_LAMBDA {
          using P = std::remove_cvref_t<decltype(x)>;
          bin = P(static_cast<T>(bins - 1));
          for (const double boundary : Boundaries.value)
            bin = bin - select(x < P(static_cast<T>(boundary)), P(T(1)), P(T(0)));
        },
        pass.x.data(), pass.y.data());
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    std::fill_n(pass.dx.data(), In::size * pass.dx.stride(), T(0));
  }
};

}}  // namespace lockstep
