// Activation functions made of exponentials.
#pragma once

#include <limits>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/log.hpp"
#include "lockstep/layers/activation_function.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// 1 / (1 + e^-x) and its derivative, both without cancellation.
template <class P>
struct Logistic {
  P value;
  P slope;
};
template <class P>
LOCKSTEP_KERNEL Logistic<P> logistic(const P& x) {
  const P small = exp(-abs(x));
  const P large_side = P(1) / (P(1) + small);
  const P small_side = small * large_side;
  return {select(x < P(0), small_side, large_side), small_side * large_side};
}

}  // namespace detail

/// y = 1 / (1 + e^-x).
struct Sigmoid {
  static constexpr std::string_view name = "sigmoid";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return P(1) / (P(1) + exp(-x));
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return dy * (y * (P(1) - y));
  }
};

/// y = tanh x.
struct Tanh {
  static constexpr std::string_view name = "tanh";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return tanh(x);
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return dy * (P(1) - y * y);
  }
};

/// y = x / (1 + e^-x), also called swish. Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for
/// neural network function approximation in reinforcement learning", 2017.
struct SiLU {
  static constexpr std::string_view name = "silu";
  static constexpr bool gradient_from_input = true;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return x * detail::logistic(x).value;
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& x) {
    const detail::Logistic<P> logistic = detail::logistic(x);
    return dy * (logistic.value + x * logistic.slope);
  }
};

/// y = x for x > 0, else e^x - 1. Clevert, Unterthiner, Hochreiter, "Fast and accurate deep network
/// learning by exponential linear units", ICLR 2016, with alpha = 1.
struct ELU {
  static constexpr std::string_view name = "elu";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return select(x > P(0), x, expm1(x));
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return select(y > P(0), dy, dy * (y + P(1)));
  }
};

/// y = scale * x for x > 0, else scale * alpha * (e^x - 1). Klambauer, Unterthiner, Mayr,
/// Hochreiter, "Self-normalizing neural networks", NIPS 2017. (Infinite in the last 5 % of the
/// range of T.)
struct SELU {
  static constexpr std::string_view name = "selu";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return select(x > P(0), x * scale<P>(), expm1(x) * bottom<P>());
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return dy * select(y > P(0), scale<P>(), y + bottom<P>());
  }

 private:
  template <class P>
  LOCKSTEP_KERNEL static P scale() {
    return P(static_cast<typename P::value_type>(1.0507009873554804934));
  }
  /// scale * alpha
  template <class P>
  LOCKSTEP_KERNEL static P bottom() {
    return P(static_cast<typename P::value_type>(1.0507009873554804934 * 1.6732632423543772848));
  }
};

/// y = ln(1 + e^x).
struct Softplus {
  static constexpr std::string_view name = "softplus";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return max(x, P(0)) + log1p(exp(-abs(x)));
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return -(dy * expm1(-y));
  }
};

/// y = x * tanh(ln(1 + e^x)). Misra, "Mish: a self regularized non-monotonic activation function",
/// BMVC 2020.
struct Mish {
  static constexpr std::string_view name = "mish";
  static constexpr bool gradient_from_input = true;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    const Fraction<P> tangent(x);
    return x * (tangent.above / tangent.below);
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& x) {
    const Fraction<P> tangent(x);
    const P fraction = tangent.above / tangent.below;
    const P rest = tangent.difference / tangent.below * (P(1) + fraction);  // 1 - fraction^2
    return dy * (fraction + x * (rest * detail::logistic(x).value));
  }

 private:
  /// tanh(ln(1 + w)), w = e^x, is (w^2 + 2w) / (w^2 + 2w + 2); for x >= 0 both are divided by w^2.
  template <class P>
  struct Fraction {
    P above, difference, below;
    LOCKSTEP_KERNEL explicit Fraction(const P& x) {
      const P small = exp(-abs(x));
      above = select(x < P(0), small * (small + P(2)), P(1) + small + small);
      difference = select(x < P(0), P(2), P(2) * small * small);
      below = above + difference;
    }
  };
};

/// y = e^x, or the largest number where that is beyond it.
struct Exponential {
  static constexpr std::string_view name = "exponential";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return min(P(std::numeric_limits<typename P::value_type>::max()), exp(x));
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return dy * y;
  }
};

LOCKSTEP_ACTIVATION_INSTANCES(Sigmoid);
LOCKSTEP_ACTIVATION_INSTANCES(Tanh);
LOCKSTEP_ACTIVATION_INSTANCES(SiLU);
LOCKSTEP_ACTIVATION_INSTANCES(ELU);
LOCKSTEP_ACTIVATION_INSTANCES(SELU);
LOCKSTEP_ACTIVATION_INSTANCES(Softplus);
LOCKSTEP_ACTIVATION_INSTANCES(Mish);
LOCKSTEP_ACTIVATION_INSTANCES(Exponential);

}  // namespace lockstep::inline LOCKSTEP_ABI
