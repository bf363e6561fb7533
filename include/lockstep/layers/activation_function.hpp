// The concept ActivationFunction, and what layers do with one.
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/kernels/transpose.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// An activation function y = value(x), element by element.
///
/// For an activation A, P = kernels::Pack<T, bytes> with T = float or double, and const P x, y, dy:
///  1. `A::name` converts to std::string_view (Keras's name).
///  2. `A::value(x)` returns P. Finite for finite x.
///  3. `A::gradient(dy, y)` returns P: dy times the derivative of A, where A's value is y. 0 where
///     dy is 0.
/// Both are LOCKSTEP_KERNEL functions, and templates over P.
/// Optional:
///  4. `A::gradient_from_input` is true: the derivative cannot be told from y. The second argument
///     of gradient is x then, and layers keep an array of derivatives from forward to backward.
///  5. `A::template minimum<T>`: A is max(x, minimum), NaN staying NaN; the matrix products then do
///     it at no cost.
///  6. `A::is_identity` is true: A does nothing and is not called.
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

/// Always true. g++ prints the names of constraints in its first message about arguments that are
/// of the wrong kind or in the wrong order, so that these are sentences.
template <class...>
concept the_activation_stands_before_the_options = true;
/// The same, of recurrent layers.
template <class...>
concept the_options_stand_before_the_activation = true;

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

template <class A>
inline constexpr bool keeps_slope = requires { requires A::gradient_from_input; };

/// Whether the gradient of A needs no output of A.
template <class A>
inline constexpr bool gradient_ignores_y = is_identity<A> || keeps_slope<A>;

/// How many derivatives a layer with activation A keeps for n outputs.
template <class A>
constexpr std::size_t slope_size(std::size_t n) {
  return keeps_slope<A> ? n : 0;
}

/// y = value(x) for n elements, and slope = A's derivative at x if A keeps it; y may be x.
template <class A, class T>
void activate(std::size_t n, const T* x, T* y, T* slope) {
  if constexpr (keeps_slope<A>)
    kernels::sweep(
        n,
        [](const auto& in, auto& out, auto& derivative) LOCKSTEP_KERNEL_LAMBDA {
          using P = std::remove_cvref_t<decltype(in)>;
          derivative = A::gradient(P(1), in);
          out = A::value(in);
        },
        x, y, slope);
  else
    kernels::sweep(
        n, [](const auto& in, auto& out) LOCKSTEP_KERNEL_LAMBDA { out = A::value(in); }, x, y);
}

/// dx = dy times the derivative of A, told from y or from the slope that activate has left, for n
/// elements; dx may be dy.
template <class A, class T>
void activation_gradient(std::size_t n, const T* dy, const T* y, const T* slope, T* dx) {
  const auto by_slope = [](const auto& gradient, const auto& derivative, auto& out)
                            LOCKSTEP_KERNEL_LAMBDA { out = gradient * derivative; };
  const auto by_value = [](const auto& gradient, const auto& value, auto& out)
                            LOCKSTEP_KERNEL_LAMBDA { out = A::gradient(gradient, value); };
  if constexpr (keeps_slope<A>)
    kernels::sweep(n, by_slope, dy, slope, dx);
  else
    kernels::sweep(n, by_value, dy, y, dx);
}

/// The gradient of the value before activation A, for the kernels of weight gradients. In place:
/// afterwards dy holds it. `slope`: what activate has left.
template <class A, class T>
kernels::Delta<T> activation_delta(std::size_t n, T* dy, const T* y, const T* slope,
                                   bool in_place) {
  if constexpr (is_identity<A>) {
    return {.dy = dy, .y = dy};
  } else if constexpr (is_fused<A, T>) {
    return {.dy = dy, .y = y, .minimum = A::template minimum<T>, .masked = in_place ? dy : nullptr};
  } else {
    activation_gradient<A, T>(n, dy, y, slope, dy);
    return {.dy = dy, .y = dy};
  }
}

/// Whether what a layer, or a container of layers, gives is linear in something, so that it is no
/// probability. False where that is not known.
template <class L>
inline constexpr bool ends_linearly =
    requires { requires is_identity<typename L::OutputActivation>; };

}  // namespace detail
}}  // namespace lockstep

/// In namespace lockstep: the loops of an activation function are compiled once in the library.
#define LOCKSTEP_ACTIVATION_INSTANCES(A)                                                           \
  LOCKSTEP_EXTERN(void detail::activate<A, float>(std::size_t, const float*, float*, float*));     \
  LOCKSTEP_EXTERN_DOUBLE(                                                                          \
      void detail::activate<A, double>(std::size_t, const double*, double*, double*));             \
  LOCKSTEP_EXTERN(void detail::activation_gradient<A, float>(std::size_t, const float*,            \
                                                             const float*, const float*, float*)); \
  LOCKSTEP_EXTERN_DOUBLE(void detail::activation_gradient<A, double>(                              \
      std::size_t, const double*, const double*, const double*, double*))
