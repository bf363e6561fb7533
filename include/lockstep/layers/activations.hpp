// Activation functions, as types.
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/kernels/transpose.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// An activation function y = value(x), element by element, whose derivative can be told from y.
///
/// For an activation A, P = kernels::Pack<T, bytes> with T = float or double, and const P x, y, dy:
///  1. `A::name` converts to std::string_view (Keras's name).
///  2. `A::value(x)` returns P. Finite for finite x.
///  3. `A::gradient(dy, y)` returns P: dy times the derivative of A, where A's value is y. 0 where
///     dy is 0.
/// Both are LOCKSTEP_KERNEL functions, and templates over P.
/// Optional:
///  4. `A::template minimum<T>`: A is max(x, minimum), NaN staying NaN; the matrix products then do
///     it at no cost.
///  5. `A::is_identity` is true: A does nothing and is not called.
///
/// Minimal model:
/// @code
/// struct Square {  // for x >= 0
///   static constexpr std::string_view name = "square";
///   template <class P> LOCKSTEP_KERNEL static P value(const P& x) { return x * x; }
///   template <class P> LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
///     return 2 * sqrt(y) * dy;
///   }
/// };
/// @endcode
template <class A, class T = float>
concept ActivationFunction = requires(const kernels::Pack<T, 16>& x) {
  { A::name } -> std::convertible_to<std::string_view>;
  { A::value(x) } -> std::same_as<kernels::Pack<T, 16>>;
  { A::gradient(x, x) } -> std::same_as<kernels::Pack<T, 16>>;
};

/// y = x.
struct Linear {
  static constexpr std::string_view name = "linear";
  static constexpr bool is_identity = true;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return x;
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P&) {
    return dy;
  }
};

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

/// y = x for x > 0, else x * SlopePercent / 100. (Whole percents, as clang++ 14 has no
/// floating-point template arguments.)
template <int SlopePercent = 30>
struct LeakyReLU {
  static_assert(SlopePercent > 0, "lockstep: LeakyReLU needs a positive slope (in percent); for zero use ls::ReLU");
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

static_assert(ActivationFunction<Linear> && ActivationFunction<Linear, double>);
static_assert(ActivationFunction<ReLU> && ActivationFunction<ReLU, double>);
static_assert(ActivationFunction<LeakyReLU<>> && ActivationFunction<LeakyReLU<>, double>);
static_assert(ActivationFunction<Sigmoid> && ActivationFunction<Sigmoid, double>);
static_assert(ActivationFunction<Tanh> && ActivationFunction<Tanh, double>);

namespace detail {

template <class A>
inline constexpr bool is_identity = requires { requires A::is_identity; };

/// A is a maximum of the value and a constant.
template <class A, class T>
inline constexpr bool has_minimum = requires { A::template minimum<T>; };

/// A is the identity or a maximum, which the kernels do by themselves.
template <class A, class T>
inline constexpr bool is_fused = is_identity<A> || has_minimum<A, T>;

template <class A, class T>
constexpr T fused_minimum() {
  if constexpr (has_minimum<A, T>)
    return A::template minimum<T>;
  else
    return -std::numeric_limits<T>::infinity();
}

/// y = value(x) for n elements; y may be x.
template <class A, class T>
void activate(std::size_t n, const T* x, T* y) {
  kernels::sweep(
      n, [](const auto& in, auto& out) LOCKSTEP_KERNEL_LAMBDA { out = A::value(in); }, x, y);
}

/// dx = gradient(dy, y) for n elements; dx may be dy.
template <class A, class T>
void activation_gradient(std::size_t n, const T* dy, const T* y, T* dx) {
  kernels::sweep(
      n,
      [](const auto& gradient, const auto& value, auto& out)
          LOCKSTEP_KERNEL_LAMBDA { out = A::gradient(gradient, value); },
      dy, y, dx);
}

/// The gradient of the value before activation A, for the kernels of weight gradients. In place:
/// afterwards dy holds it.
template <class A, class T>
kernels::Delta<T> activation_delta(std::size_t n, T* dy, const T* y, bool in_place) {
  if constexpr (is_identity<A>) {
    return {.dy = dy, .y = dy};
  } else if constexpr (is_fused<A, T>) {
    return {.dy = dy, .y = y, .minimum = A::template minimum<T>, .masked = in_place ? dy : nullptr};
  } else {
    activation_gradient<A, T>(n, dy, y, dy);
    return {.dy = dy, .y = dy};
  }
}

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
