// Momentum whose steps are orthogonal matrices.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/portable_functions.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/whole_variables.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Muon: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024, with the
/// step lengths of Liu et al., "Muon is scalable for LLM training", 2025; Keras's formulas. For a
/// variable of two dimensions, R x C, with g the mean gradient and m a slot:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   m = momentum * m + g;  x = g + momentum * m, or without nesterov x = m
///   x /= |x| + 1e-7;  ns_steps times:  a = x x';  x = muon_a * x + (muon_b * a + muon_c * a a) x
///   w -= learning_rate * rms_rate * sqrt(max(R, C)) * x         with rms_rate 0: * x alone
///
/// (x' is x transposed; with R > C the steps are made with x' in place of x.) Variables of another
/// number of dimensions, embeddings, and those of exclude_layers (an output layer, usually) are
/// updated by Adam with the learning rate times adam_lr_ratio, and with adam_weight_decay.
/// Use: `Muon{.exclude_layers = {"head"}}`.
struct Muon {
  LearningRate learning_rate = 0.001;
  double adam_beta_1 = 0.9;    ///< in [0, 1)
  double adam_beta_2 = 0.999;  ///< in [0, 1)
  double adam_weight_decay = 0.004;
  double epsilon = 1e-7;  ///< Adam's
  double weight_decay = 0.004;
  VariableFilter exclude_layers = {};
  bool exclude_embeddings = true;
  double muon_a = 3.4445, muon_b = -4.775, muon_c = 2.0315;
  double adam_lr_ratio = 1;
  double momentum = 0.95;  ///< in [0, 1)
  std::int64_t ns_steps = 5;
  bool nesterov = true;
  double rms_rate = 0.2;       ///< 0: none
  double clipnorm = 0;         ///< the largest norm of a variable's gradient; 0: any
  double clipvalue = 0;        ///< the largest element of a gradient; 0: any
  double global_clipnorm = 0;  ///< the largest norm of all gradients together; 0: any
  VariableFilter exclude_from_weight_decay = {};
  LearningRateFactors learning_rate_factors = {};
  bool use_ema = false;  ///< keeps moving averages of the weights, which replace them when fit ends
  double ema_momentum = 0.99;                ///< in [0, 1]
  std::int64_t ema_overwrite_frequency = 0;  ///< updates until averages replace weights; 0: never
  std::int64_t gradient_accumulation_steps = 1;  ///< steps whose gradients make one update

  static constexpr std::string_view name = "Muon";
  static constexpr bool updates_whole_variables = true;

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                              {"adam_beta_1", adam_beta_1},
                                              {"adam_beta_2", adam_beta_2},
                                              {"adam_weight_decay", adam_weight_decay},
                                              {"epsilon", epsilon},
                                              {"weight_decay", weight_decay},
                                              {"exclude_layers", exclude_layers.description()},
                                              {"exclude_embeddings", exclude_embeddings},
                                              {"muon_a", muon_a},
                                              {"muon_b", muon_b},
                                              {"muon_c", muon_c},
                                              {"adam_lr_ratio", adam_lr_ratio},
                                              {"momentum", momentum},
                                              {"ns_steps", ns_steps},
                                              {"nesterov", nesterov},
                                              {"rms_rate", rms_rate}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_decay_rate(name, "adam_beta_1", adam_beta_1);
    detail::require_decay_rate(name, "adam_beta_2", adam_beta_2);
    detail::require_decay_rate(name, "momentum", momentum);
    detail::require_not_negative(name, "adam_weight_decay", adam_weight_decay);
    detail::require_not_negative(name, "epsilon", epsilon);
    detail::require_not_negative(name, "weight_decay", weight_decay);
    detail::require_not_negative(name, "adam_lr_ratio", adam_lr_ratio);
    detail::require_not_negative(name, "rms_rate", rms_rate);
    detail::require_count(name, "ns_steps", ns_steps, 0);
  }

  [[nodiscard]] constexpr std::size_t slots() const { return 2; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const {
    for (const std::size_t i : keras.order()) {
      keras.of_variable(i, {.slot = 0});
      if (is_for_adam(keras.variables()[i], keras.names()[i])) keras.of_variable(i, {.slot = 1});
    }
  }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;

 private:
  [[nodiscard]] bool is_for_adam(const Variable& variable, std::string_view variable_name) const {
    return variable.rank != 2 || exclude_layers.contains(variable_name, 2) ||
           (exclude_embeddings && variable_name.find("embedding") != std::string_view::npos);
  }

  template <class T>
  void update_by_adam(const UpdateContext& context, std::span<T> parameters,
                      std::span<const T> gradients, std::span<T* const> slots) const;

  template <class T>
  void update_matrix(const UpdateContext& context, std::size_t rows, std::size_t columns,
                     std::span<T> parameters, std::span<const T> gradients, T* momenta) const;

  /// Memory of a thread for matrices of n rows, not more than columns, and products of them. The
  /// order of summation depends on the sizes alone.
  template <class T>
  struct Matrices;
};

template <class T>
struct Muon::Matrices {
  std::size_t rows = 0, columns = 0, step = 0, square_step = 0;
  std::vector<T> x, transposed, product, squared, combined, line;

  /// All zeros.
  static Matrices& of(std::size_t rows, std::size_t columns) {
    thread_local Matrices matrices;
    matrices.rows = rows;
    matrices.columns = columns;
    matrices.step = kernels::padded_columns(columns);
    matrices.square_step = kernels::padded_columns(rows);
    for (std::vector<T>* const wide : {&matrices.x, &matrices.product})
      wide->assign(rows * matrices.step, T(0));
    matrices.transposed.assign(columns * matrices.square_step, T(0));
    for (std::vector<T>* const square : {&matrices.squared, &matrices.combined})
      square->assign(rows * matrices.square_step, T(0));
    matrices.line.assign(rows, T(0));
    return matrices;
  }

  void scale(T by) {
    kernels::sweep(
        x.size(), [=](auto& value) LOCKSTEP_KERNEL_LAMBDA { value = by * value; }, x.data());
  }

  void newton_schulz(T a, T b, T c) {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) transposed[j * square_step + i] = x[i * step + j];
    kernels::multiply_parts<T>({squared.data(), rows, rows, square_step}, x.data(),
                               transposed.data(), columns, {step, 1, {square_step}});
    kernels::multiply_parts<T>({combined.data(), rows, rows, square_step}, squared.data(),
                               squared.data(), rows, {square_step, 1, {square_step}});
    const auto combine = [=](auto& to, const auto& from)
                             LOCKSTEP_KERNEL_LAMBDA { to = b * from + c * to; };
    kernels::sweep(combined.size(), combine, combined.data(),
                   static_cast<const T*>(squared.data()));
    kernels::multiply_parts<T>({product.data(), rows, columns, step}, combined.data(), x.data(),
                               rows, {square_step, 1, {step}});
    const auto add = [=](auto& to, const auto& from) LOCKSTEP_KERNEL_LAMBDA { to = a * to + from; };
    kernels::sweep(x.size(), add, x.data(), static_cast<const T*>(product.data()));
  }
};

template <class T>
void Muon::update(const UpdateContext& context, std::span<T> parameters,
                  std::span<const T> gradients, std::span<T* const> slots) const {
  const Variable& variable = *context.variable;
  if (is_for_adam(variable, context.variable_name))
    update_by_adam(context, parameters, gradients, slots);
  else
    update_matrix(context, variable.extents[0], variable.extents[1], parameters, gradients,
                  slots[0]);
}

template <class T>
void Muon::update_by_adam(const UpdateContext& context, std::span<T> parameters,
                          std::span<const T> gradients, std::span<T* const> slots) const {
  const double correction = std::sqrt(1 - detail::power(adam_beta_2, context.iteration)) /
                            (1 - detail::power(adam_beta_1, context.iteration));
  const T rate = static_cast<T>(context.learning_rate * adam_lr_ratio * correction);
  const T keep = static_cast<T>(context.keep(adam_weight_decay)), eps = static_cast<T>(epsilon);
  const T new_m = static_cast<T>(1 - adam_beta_1), new_v = static_cast<T>(1 - adam_beta_2);
  const detail::WholeGradient<T> mean(context);
  const auto step = [=](auto& w, auto& m, auto& v, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
    const auto g = mean(gradient);
    m += new_m * (g - m);
    v += new_v * (g * g - v);
    w = keep * w - rate * m / (sqrt(v) + eps);
  };
  kernels::sweep(parameters.size(), step, parameters.data(), slots[0], slots[1], gradients.data());
}

template <class T>
void Muon::update_matrix(const UpdateContext& context, std::size_t rows, std::size_t columns,
                         std::span<T> parameters, std::span<const T> gradients, T* momenta) const {
  const detail::WholeGradient<T> mean(context);
  const T mu = static_cast<T>(momentum);
  const bool is_tall = rows > columns;
  Matrices<T>& x = Matrices<T>::of(is_tall ? columns : rows, is_tall ? rows : columns);
  const auto sum = [=](auto& m, const auto& gradient)
                       LOCKSTEP_KERNEL_LAMBDA { m = mu * m + mean(gradient); };
  kernels::sweep(parameters.size(), sum, momenta, gradients.data());
  const T by_m = nesterov ? mu : T(1), by_g = nesterov ? T(1) : T(0);
  const auto direction = [=](auto& to, const auto& m, const auto& gradient)
                             LOCKSTEP_KERNEL_LAMBDA { to = by_g * mean(gradient) + by_m * m; };
  for (std::size_t row = 0; row < rows; ++row) {
    T* const line = is_tall ? x.line.data() : x.x.data() + row * x.step;
    kernels::sweep(columns, direction, line, static_cast<const T*>(momenta + row * columns),
                   gradients.data() + row * columns);
    if (is_tall)
      for (std::size_t i = 0; i < columns; ++i) x.x[i * x.step + row] = line[i];
  }
  x.scale(static_cast<T>(1 / (detail::norm(std::span<const T>(x.x)) + 1e-7)));
  for (std::int64_t i = 0; i < ns_steps; ++i)
    x.newton_schulz(static_cast<T>(muon_a), static_cast<T>(muon_b), static_cast<T>(muon_c));
  const double length =
      rms_rate > 0 ? rms_rate * std::sqrt(static_cast<double>(std::max(rows, columns))) : 1;
  const T rate = static_cast<T>(context.learning_rate * length),
          keep = static_cast<T>(context.keep(weight_decay));
  const auto step = [=](auto& w, const auto& u) LOCKSTEP_KERNEL_LAMBDA { w = keep * w - rate * u; };
  for (std::size_t row = 0; row < rows; ++row) {
    const T* line = x.x.data() + row * x.step;
    if (is_tall) {
      for (std::size_t i = 0; i < columns; ++i) x.line[i] = x.x[i * x.step + row];
      line = x.line.data();
    }
    kernels::sweep(columns, step, parameters.data() + row * columns, line);
  }
}

}}  // namespace lockstep
