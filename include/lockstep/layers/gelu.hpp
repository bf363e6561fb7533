// GELU, exact and approximated.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/normal_distribution.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/smooth_activations.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// y = x/2 * (1 + erf(x / sqrt(2))): x times the probability that a normal number is at most x.
/// Hendrycks, Gimpel, "Gaussian error linear units (GELUs)", 2016. Keras's default, and PyTorch's.
struct GELU {
  static constexpr std::string_view name = "gelu";
  static constexpr bool gradient_from_input = true;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return x * kernels::normal_distribution(x).probability;
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& x) {
    const kernels::NormalDistribution<P> normal = kernels::normal_distribution(x);
    return dy * (normal.probability + x * normal.density);
  }
};

/// y = x/2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))): GPT-2's, Keras's with approximate=True.
/// It differs from GELU by up to 5e-4.
struct GELUTanh {
  static constexpr std::string_view name = "gelu_tanh";
  static constexpr bool gradient_from_input = true;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return x * Argument<P>(x).logistic().value;
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& x) {
    const Argument<P> argument(x);
    const detail::Logistic<P> logistic = argument.logistic();
    return dy * (logistic.value + x * logistic.slope * argument.slope());
  }

 private:
  /// (1 + tanh u) / 2 is the logistic function of 2u.
  template <class P>
  struct Argument {
    using T = typename P::value_type;
    static constexpr T linear = static_cast<T>(1.5957691216057307117);  // 2 * sqrt(2 / pi)
    static constexpr T cubic = static_cast<T>(1.5957691216057307117 * 0.044715);
    P x, square;

    LOCKSTEP_KERNEL explicit Argument(const P& input) {
      constexpr T farthest = 24;  // beyond, the logistic function is 0 or 1
      x = select(input > P(farthest), P(farthest), input);
      x = select(x < P(-farthest), P(-farthest), x);
      square = x * x;
    }
    LOCKSTEP_KERNEL detail::Logistic<P> logistic() const {
      return detail::logistic(x * multiply_add(square, P(cubic), P(linear)));
    }
    LOCKSTEP_KERNEL P slope() const { return multiply_add(square, P(3 * cubic), P(linear)); }
  };
};

LOCKSTEP_ACTIVATION_INSTANCES(GELU);
LOCKSTEP_ACTIVATION_INSTANCES(GELUTanh);

}  // namespace lockstep::inline LOCKSTEP_ABI
