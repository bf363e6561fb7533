// All activation functions of elements, and the layers made of them.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/softmax.hpp"
#include "lockstep/kernels/vector_loops.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// y = max(x, 0).
/// Use: `Dense<10, ReLU>`. Keras: `activation="relu"`.
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
/// Use: `Dense<10, ReLU6>`. Keras: `activation="relu6"`.
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
/// Use: `Dense<10, LeakyReLU<20>>`. Keras: `LeakyReLU(0.2)`.
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
/// Use: `Dense<10, HardSigmoid>`. Keras: `activation="hard_sigmoid"`.
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
/// Use: `Dense<10, HardSiLU>`. Keras: `activation="hard_silu"`.
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
/// Use: `Dense<10, Softsign>`. Keras: `activation="softsign"`.
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
/// Use: `Dense<10, Sigmoid>`. Keras: `activation="sigmoid"`.
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
/// Use: `Dense<10, Tanh>`. Keras: `activation="tanh"`.
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
/// Use: `Dense<10, SiLU>`. Keras: `activation="silu"`.
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
/// Use: `Dense<10, ELU>`. Keras: `activation="elu"`.
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
/// Use: `Dense<10, SELU>`. Keras: `activation="selu"`.
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
/// Use: `Dense<10, Softplus>`. Keras: `activation="softplus"`.
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
/// Use: `Dense<10, Mish>`. Keras: `activation="mish"`.
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
/// Use: `Dense<10, Exponential>`. Keras: `activation="exponential"`.
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

/// y = x/2 * (1 + erf(x / sqrt(2))): x times the probability that a normal number is at most x.
/// Hendrycks, Gimpel, "Gaussian error linear units (GELUs)", 2016. Keras's default, and PyTorch's.
/// Use: `Dense<10, GELU>`. Keras: `activation="gelu"`.
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
/// Use: `Dense<10, GELUTanh>`. Keras: `gelu(approximate=True)`.
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

/// y = Function(x), element by element, for samples of any shape: `Activation<ReLU>`. If the
/// layer before has a WithActivation (Dense, Conv2D, BatchNormalization) and no activation yet, the
/// model fuses the two: this costs no more than giving that layer the activation as a parameter.
/// Use: `Activation<ReLU>`: Shape<10> -> Shape<10>.
template <class Function>
struct Activation {
  static_assert(ActivationFunction<Function>,
                "lockstep: the parameter of Activation is no activation function; use ls::ReLU, "
                "ls::Tanh, ...");
  static constexpr std::string_view name = "activation";
  static constexpr bool keeps_padding = true;
  static constexpr bool backward_in_place = true;

  template <class In>
  using Output = In;

  /// What does the work of L and of this layer after it.
  template <class L>
    requires requires {
      requires std::is_same_v<typename L::template WithActivation<Function>::Preactivation, L>;
    }
  using FusedInto = typename L::template WithActivation<Function>;

  template <class In>
  static constexpr std::size_t scratch(std::size_t stride) {
    return detail::slope_size<Function>(In::size * stride);
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::activate<Function, T>(In::size * pass.x.stride(), pass.x.data(), pass.y.data(),
                                  pass.scratch.data());
  }

  template <class In, class T>
  static void forward_few(const FewSamplesPass<T>& pass) {
    detail::activate<Function, T>(In::size * pass.samples, pass.x, pass.y, pass.scratch);
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    detail::activation_gradient<Function, T>(In::size * pass.y.stride(), pass.dy.data(),
                                             pass.y.data(), pass.scratch.data(), pass.dx.data());
  }
};

/// y_c = exp(x_c) / sum of exp(x) over the last dimension, for samples of any shape. (With a loss
/// from logits leave it out: that loses no digits.)
/// Use: `Softmax`: Shape<10> -> Shape<10>.
struct Softmax {
  static constexpr std::string_view name = "softmax";
  static constexpr bool keeps_padding = true;

  template <class In>
  using Output = In;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    kernels::dispatch(kernels::Softmax<T>{
        .size = size<In>(pass.x.stride()), .x = pass.x.data(), .y = pass.y.data()});
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    kernels::dispatch(kernels::SoftmaxGradient<T>{size<In>(pass.x.stride()), pass.dy.data(),
                                                  pass.y.data(), pass.dx.data()});
  }

 private:
  template <class In>
  static constexpr kernels::GroupSize size(std::size_t stride) {
    constexpr std::size_t classes = In::extents[In::rank - 1];
    return {.groups = In::size / classes, .features = classes, .samples = stride, .stride = stride};
  }
};

}}  // namespace lockstep
