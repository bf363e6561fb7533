// Adam with second moments of rows and columns.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/portable_functions.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/keras_slots.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/optimizers/whole_variables.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Adafactor: Shazeer, Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML
/// 2018; Keras's formulas. With g the mean gradient, t the iteration, and root mean squares over a
/// variable:
///
///   w -= learning_rate * weight_decay * w       decoupled weight decay, first
///   rate = min(learning_rate, 1 / sqrt(t)) * max(epsilon_2, rms(w))
///   b = 1 - t^beta_2_decay
///   r = b * r + (1 - b) * mean of g * g + epsilon_1 over the last dimension
///   c = b * c + (1 - b) * mean of g * g + epsilon_1 over the one before
///   v = r * c / mean of r over its last dimension;  u = g / sqrt(v)
///   w -= rate * u / max(1, rms(u) / clip_threshold)
///
/// A variable of one dimension has v = b * v + (1 - b) * (g * g + epsilon_1). So has one with a
/// last dimension or one before it of 1, where v is the same. r and c lie one after the other in a
/// slot that is as long as the parameters, as is the v of others: half of Adam's memory. With
/// `.relative_step = false`, rate has the learning rate itself. (In Keras that option changes
/// nothing.)
/// Use: `Adafactor{}`.
struct Adafactor {
  LearningRate learning_rate = 0.001;
  double beta_2_decay = -0.8;  ///< below 0
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;  ///< above 0
  bool relative_step = true;
  double weight_decay = 0;
  double clipnorm = 0;         ///< the largest norm of a variable's gradient; 0: any
  double clipvalue = 0;        ///< the largest element of a gradient; 0: any
  double global_clipnorm = 0;  ///< the largest norm of all gradients together; 0: any
  VariableFilter exclude_from_weight_decay = {};
  LearningRateFactors learning_rate_factors = {};
  bool use_ema = false;  ///< keeps moving averages of the weights, which replace them when fit ends
  double ema_momentum = 0.99;                ///< in [0, 1]
  std::int64_t ema_overwrite_frequency = 0;  ///< updates until averages replace weights; 0: never
  std::int64_t gradient_accumulation_steps = 1;  ///< steps whose gradients make one update

  static constexpr std::string_view name = "Adafactor";
  static constexpr bool updates_whole_variables = true;

  [[nodiscard]] std::string description() const {
    return detail::describe_optimizer(*this, {{"learning_rate", learning_rate.description()},
                                              {"beta_2_decay", beta_2_decay},
                                              {"epsilon_1", epsilon_1},
                                              {"epsilon_2", epsilon_2},
                                              {"clip_threshold", clip_threshold},
                                              {"relative_step", relative_step},
                                              {"weight_decay", weight_decay}});
  }

  /// Throws ConfigurationError.
  void validate() const {
    detail::require_not_negative(name, "learning_rate", learning_rate);
    detail::require_option(beta_2_decay < 0, name, "beta_2_decay", beta_2_decay,
                           "a number below 0");
    detail::require_not_negative(name, "epsilon_1", epsilon_1);
    detail::require_not_negative(name, "epsilon_2", epsilon_2);
    detail::require_option(clip_threshold > 0, name, "clip_threshold", clip_threshold,
                           "a number above 0");
    detail::require_not_negative(name, "weight_decay", weight_decay);
  }

  [[nodiscard]] constexpr std::size_t slots() const { return 1; }

  /// In Keras's files.
  void keras_slots(KerasSlots& keras) const {
    using Part = KerasSlot::Part;
    for (const std::size_t i : keras.order()) {
      const Variable& variable = keras.variables()[i];
      const bool is_factored = extents_of(variable).columns > 0;
      if (variable.rank < 2) {
        keras.number(0);
        keras.number(0);
      } else {
        keras.of_variable(i, {.part = is_factored ? Part::rows : Part::row_means});
        keras.of_variable(i, {.part = is_factored ? Part::columns : Part::column_means});
      }
      keras.of_variable(i, {.part = is_factored ? Part::unread : Part::whole});
    }
  }

  template <class T>
  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const;

 private:
  /// The last two dimensions, and how many such matrices there are; columns: 0 where v is not
  /// factored.
  struct Extents {
    std::size_t outer = 1, rows = 0, columns = 0;
  };
  [[nodiscard]] static Extents extents_of(const Variable& variable) noexcept {
    const auto shape = variable.shape();
    if (shape.size() < 2 || shape[shape.size() - 1] < 2 || shape[shape.size() - 2] < 2) return {};
    Extents extents{.rows = shape[shape.size() - 2], .columns = shape[shape.size() - 1]};
    for (std::size_t i = 0; i + 2 < shape.size(); ++i) extents.outer *= shape[i];
    return extents;
  }

  template <class T>
  struct Moments;
};

template <class T>
struct Adafactor::Moments {
  double decay;  // b
  T epsilon;
  detail::WholeGradient<T> mean;

  void update_all(std::size_t n, T* v, const T* gradients) const {
    const T old = static_cast<T>(decay), fresh = static_cast<T>(1 - decay), eps = epsilon;
    const auto step = [=, average = mean](auto& moment, const auto& gradient)
                          LOCKSTEP_KERNEL_LAMBDA {
                            const auto g = average(gradient);
                            moment = old * moment + fresh * (g * g + eps);
                          };
    kernels::sweep(n, step, v, gradients);
  }

  /// r, and behind them c.
  void update_factors(const Extents& extents, T* factors, const T* gradients) const {
    const std::size_t all_columns = extents.outer * extents.columns;
    T* const columns = factors + extents.outer * extents.rows;
    const T old = static_cast<T>(decay), eps = epsilon;
    const T part = static_cast<T>((1 - decay) / static_cast<double>(extents.rows));
    kernels::sweep(
        all_columns, [=](auto& c) LOCKSTEP_KERNEL_LAMBDA { c = old * c; }, columns);
    const auto square = [=, average = mean](const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
      const auto g = average(gradient);
      return g * g + eps;
    };
    const auto add = [=](auto& c, const auto& gradient)
                         LOCKSTEP_KERNEL_LAMBDA { c += part * square(gradient); };
    for (std::size_t row = 0; row < extents.outer * extents.rows; ++row) {
      const T* const begin = gradients + row * extents.columns;
      const double sum = kernels::sweep_sum(extents.columns, square, begin);
      factors[row] = static_cast<T>(decay * static_cast<double>(factors[row]) +
                                    (1 - decay) * sum / static_cast<double>(extents.columns));
      kernels::sweep(extents.columns, add, columns + row / extents.rows * extents.columns, begin);
    }
  }

  /// The sum of u * u, with v = root * root * column. (In this product, two small factors of
  /// float may be 0.)
  [[nodiscard]] double squares(std::size_t n, T root, const T* columns, const T* gradients) const {
    const auto square = [=, average = mean](const auto& column, const auto& gradient)
                            LOCKSTEP_KERNEL_LAMBDA {
                              const auto u = average(gradient) / (root * sqrt(column));
                              return u * u;
                            };
    return kernels::sweep_sum(n, square, columns, gradients);
  }

  void apply(std::size_t n, T rate, T root, T* parameters, const T* columns,
             const T* gradients) const {
    const auto step =
        [=, average = mean](auto& w, const auto& column, const auto& gradient)
            LOCKSTEP_KERNEL_LAMBDA { w -= rate * average(gradient) / (root * sqrt(column)); };
    kernels::sweep(n, step, parameters, columns, gradients);
  }
};

template <class T>
void Adafactor::update(const UpdateContext& context, std::span<T> parameters,
                       std::span<const T> gradients, std::span<T* const> slots) const {
  const std::size_t n = parameters.size();
  const T keep = static_cast<T>(context.keep(weight_decay));
  if (keep != T(1))
    kernels::sweep(
        n, [=](auto& w) LOCKSTEP_KERNEL_LAMBDA { w = keep * w; }, parameters.data());
  const Moments<T> moments{
      .decay = 1 - portable::power(static_cast<double>(context.iteration), beta_2_decay),
      .epsilon = static_cast<T>(epsilon_1),
      .mean = detail::WholeGradient<T>(context)};
  const double elements = static_cast<double>(n);
  const double rms = detail::norm(std::span<const T>(parameters)) / std::sqrt(elements);
  double rate = context.learning_rate;
  if (relative_step) rate = std::min(rate, 1 / std::sqrt(static_cast<double>(context.iteration)));
  rate *= std::max(epsilon_2, rms);
  const auto clipped = [&](double squares) {
    return static_cast<T>(rate / std::max(1.0, std::sqrt(squares / elements) / clip_threshold));
  };
  const Extents extents = extents_of(*context.variable);
  if (extents.columns == 0) {
    moments.update_all(n, slots[0], gradients.data());
    const T step = clipped(moments.squares(n, T(1), slots[0], gradients.data()));
    moments.apply(n, step, T(1), parameters.data(), slots[0], gradients.data());
    return;
  }
  double squares = 0;
  const auto each_row = [&](const auto& f) {
    T* const rows_begin = slots[0];
    T* const columns_begin = rows_begin + extents.outer * extents.rows;
    for (std::size_t outer = 0; outer < extents.outer; ++outer) {
      T* const rows = rows_begin + outer * extents.rows;
      double sum = 0;
      for (std::size_t i = 0; i < extents.rows; ++i) sum += static_cast<double>(rows[i]);
      const double mean = sum / static_cast<double>(extents.rows);
      for (std::size_t i = 0; i < extents.rows; ++i)
        f(static_cast<T>(std::sqrt(static_cast<double>(rows[i]) / mean)),
          columns_begin + outer * extents.columns, (outer * extents.rows + i) * extents.columns);
    }
  };
  moments.update_factors(extents, slots[0], gradients.data());
  each_row([&](T root, const T* columns, std::size_t begin) {
    squares += moments.squares(extents.columns, root, columns, gradients.data() + begin);
  });
  const T step = clipped(squares);
  each_row([&](T root, const T* columns, std::size_t begin) {
    moments.apply(extents.columns, step, root, parameters.data() + begin, columns,
                  gradients.data() + begin);
  });
}

}}  // namespace lockstep
