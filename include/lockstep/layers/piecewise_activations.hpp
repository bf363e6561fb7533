// Activation functions without an exponential.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/layers/activation_function.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// y = max(x, 0).
struct ReLU {
  static constexpr std::string_view name = "relu";
  template <class T>
  static constexpr T minimum = 0;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return select(x < P(0), P(0), x);
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return select(y <= P(0), P(0), dy);
  }
};

/// y = min(max(x, 0), 6).
struct ReLU6 {
  static constexpr std::string_view name = "relu6";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return select(x > P(6), P(6), ReLU::value(x));
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return select(y <= P(0), P(0), dy * below<P>(y, 6));
  }

  /// 1 below the limit, else 0. (As a factor: g++ 12 makes scalars of two masks that are combined.)
  template <class P>
  LOCKSTEP_KERNEL static P below(const P& y, typename P::value_type limit) {
    return select(y < P(limit), P(1), P(0));
  }
};

/// y = x for x > 0, else x * SlopePercent / 100: by default what Keras's layer LeakyReLU does;
/// LeakyReLU<20> is its function leaky_relu. (Whole percents, as clang++ 14 has no floating-point
/// template arguments.)
template <int SlopePercent = 30>
struct LeakyReLU {
  static_assert(SlopePercent > 0,
                "lockstep: LeakyReLU needs a positive slope (in percent); for zero use ls::ReLU");
  static constexpr std::string_view name = "leaky_relu";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return select(x > P(0), x, x * slope<P>());
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return select(y > P(0), dy, dy * slope<P>());
  }

 private:
  template <class P>
  LOCKSTEP_KERNEL static P slope() {
    return P(static_cast<typename P::value_type>(SlopePercent) / 100);
  }
};

/// y = min(max(x + 3, 0), 6) / 6.
struct HardSigmoid {
  static constexpr std::string_view name = "hard_sigmoid";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return ReLU6::value(x + P(3)) * sixth<P>();
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return select(y <= P(0), P(0), dy * sixth<P>() * ReLU6::below<P>(y, 1));
  }

  template <class P>
  LOCKSTEP_KERNEL static P sixth() {
    return P(typename P::value_type(1) / 6);
  }
};

/// y = x * HardSigmoid(x).
struct HardSiLU {
  static constexpr std::string_view name = "hard_silu";
  static constexpr bool gradient_from_input = true;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return x * HardSigmoid::value(x);
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& x) {
    const P inside = dy * (x + x + P(3)) * HardSigmoid::sixth<P>();
    return select(x <= P(-3), P(0), select(x >= P(3), dy, inside));
  }
};

/// y = x / (1 + |x|).
struct Softsign {
  static constexpr std::string_view name = "softsign";
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return x / (P(1) + abs(x));
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    const P rest = P(1) - abs(y);
    return dy * (rest * rest);
  }
};

LOCKSTEP_ACTIVATION_INSTANCES(ReLU);
LOCKSTEP_ACTIVATION_INSTANCES(ReLU6);
LOCKSTEP_ACTIVATION_INSTANCES(LeakyReLU<>);
LOCKSTEP_ACTIVATION_INSTANCES(HardSigmoid);
LOCKSTEP_ACTIVATION_INSTANCES(HardSiLU);
LOCKSTEP_ACTIVATION_INSTANCES(Softsign);

}  // namespace lockstep::inline LOCKSTEP_ABI
