// What is done for every optimizer outside its formula, as its options say.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Chooses variables by name, by the number of their dimensions, or both; none by default.
///
/// A pattern with a slash is compared with the whole name ("dense_1/bias"), one without a slash
/// with each part of it ("dense_1" and "bias"). `*` stands for any text, slashes included, `?` for
/// one character and `[ab]` for one of these.
/// @code
/// AdamW{.exclude_from_weight_decay = {"bias", "layer_normalization*"}}
/// AdamW{.exclude_from_weight_decay = fewer_dimensions_than(2)}
/// AdamW{.exclude_from_weight_decay = fewer_dimensions_than(2) | VariableFilter{"embedding*"}}
/// @endcode
class VariableFilter {
 public:
  VariableFilter() = default;
  VariableFilter(std::initializer_list<std::string_view> patterns)
      : patterns_(patterns.begin(), patterns.end()) {}

  /// Matches what either matches.
  [[nodiscard]] friend VariableFilter operator|(VariableFilter a, const VariableFilter& b) {
    a.patterns_.insert(a.patterns_.end(), b.patterns_.begin(), b.patterns_.end());
    a.dimensions_ = std::max(a.dimensions_, b.dimensions_);
    return a;
  }
  friend VariableFilter fewer_dimensions_than(std::size_t dimensions);

  [[nodiscard]] bool empty() const noexcept { return patterns_.empty() && dimensions_ == 0; }
  [[nodiscard]] const std::vector<std::string>& patterns() const noexcept { return patterns_; }

  /// `name` as "dense_1/bias"; `dimensions` of the variable's shape.
  [[nodiscard]] bool contains(std::string_view name, std::size_t dimensions) const;

  [[nodiscard]] static bool matches(const std::string& pattern, std::string_view name);

  /// "bias|gamma|<2d".
  [[nodiscard]] std::string description() const;

 private:
  static bool is_like(const std::string& pattern, std::string_view name) {
    return fnmatch(pattern.c_str(), std::string(name).c_str(), 0) == 0;
  }

  std::vector<std::string> patterns_;
  std::size_t dimensions_ = 0;  // variables of fewer
};

/// fewer_dimensions_than(2): biases, and what normalisations scale and shift with.
[[nodiscard]] VariableFilter fewer_dimensions_than(std::size_t dimensions);

/// A factor of the learning rate, for some variables.
/// @code
/// Adam{.learning_rate_factors = {{.variables = {"embedding*"}, .factor = 0.1}}}
/// @endcode
struct LearningRateFactor {
  VariableFilter variables;
  double factor = 1;  ///< at least 0; those of all entries that choose a variable are multiplied
};
using LearningRateFactors = std::vector<LearningRateFactor>;

namespace detail {

/// How a variable is updated.
struct VariableRule {
  double learning_rate_factor = 1;
  bool decays = true;  ///< weight decay applies to it

  friend bool operator==(const VariableRule&, const VariableRule&) = default;
};

/// Keras's options, where 0 is None.
struct Clipping {
  double clipnorm = 0;         ///< the norm of each variable's gradient becomes at most this
  double clipvalue = 0;        ///< each element becomes at most this, and at least its negative
  double global_clipnorm = 0;  ///< the norm of all gradients together becomes at most this

  [[nodiscard]] bool is_by_norm() const noexcept { return clipnorm > 0 || global_clipnorm > 0; }
};

/// What gradients are multiplied by so that a norm is at most `limit`. As in Keras, a norm that is
/// NaN makes all of them NaN.
[[nodiscard]] constexpr double clipping_factor(double norm, double limit) noexcept {
  return norm <= limit ? 1 : limit / norm;
}

/// Exponential moving averages of the weights, after each update:
///
///   average = momentum * average + (1 - momentum) * w      after the first one: average = w
struct Averaging {
  bool is_on = false;
  double momentum = 0.99;
  std::int64_t overwrite_frequency = 0;  ///< w = average after every n updates; 0: never
};

struct UpdateRules {
  std::optional<LearningRate> schedule;  ///< if the learning rate is not set, but follows one
  Clipping clipping;
  Averaging averaging;
  std::int64_t accumulation_steps = 1;  ///< steps whose gradients make one update
  bool whole_variables = false;         ///< the optimizer is called once for each variable
  std::vector<VariableRule> variables;  ///< one for each that is trained; empty: as by default
};

/// Throws unless all patterns choose a variable.
void check_filter(std::string_view optimizer, std::string_view option, const VariableFilter& filter,
                  std::span<const std::string> names);

/// The types of update_rules and of an optimizer's update, for instances that the library holds.
template <class O>
using RulesOf = UpdateRules(const O&, std::span<const std::string>, std::span<const Variable>);
template <class T>
using OptimizerUpdate = void(const UpdateContext&, std::span<T>, std::span<const T>,
                             std::span<T* const>) const;

/// Reads the options that an optimizer has. Throws ConfigurationError for those that make no sense
/// for these variables.
template <class O>
[[nodiscard]] UpdateRules update_rules(const O& optimizer, std::span<const std::string> names,
                                       std::span<const Variable> variables) {
  UpdateRules rules;
  if constexpr (requires { optimizer.learning_rate.is_scheduled(); })
    if (optimizer.learning_rate.is_scheduled()) rules.schedule = optimizer.learning_rate;
  Clipping& clipping = rules.clipping;
  if constexpr (requires { optimizer.clipnorm; }) clipping.clipnorm = optimizer.clipnorm;
  if constexpr (requires { optimizer.clipvalue; }) clipping.clipvalue = optimizer.clipvalue;
  if constexpr (requires { optimizer.global_clipnorm; })
    clipping.global_clipnorm = optimizer.global_clipnorm;
  require_not_negative(O::name, "clipnorm", clipping.clipnorm);
  require_not_negative(O::name, "clipvalue", clipping.clipvalue);
  require_not_negative(O::name, "global_clipnorm", clipping.global_clipnorm);
  if ((clipping.clipnorm > 0) + (clipping.clipvalue > 0) + (clipping.global_clipnorm > 0) > 1)
    throw ConfigurationError(
        std::string(O::name) +
        ": clipnorm, clipvalue and global_clipnorm exclude each other; give one of them");

  Averaging& averaging = rules.averaging;
  if constexpr (requires { optimizer.use_ema; }) averaging.is_on = optimizer.use_ema;
  if constexpr (requires { optimizer.ema_momentum; }) averaging.momentum = optimizer.ema_momentum;
  if constexpr (requires { optimizer.ema_overwrite_frequency; })
    averaging.overwrite_frequency = optimizer.ema_overwrite_frequency;
  require_option(averaging.momentum >= 0 && averaging.momentum <= 1, O::name, "ema_momentum",
                 averaging.momentum, "a number in [0, 1]");
  require_count(O::name, "ema_overwrite_frequency", averaging.overwrite_frequency, 0);
  if constexpr (requires { optimizer.updates_whole_variables; })
    rules.whole_variables = optimizer.updates_whole_variables;
  if constexpr (requires { optimizer.gradient_accumulation_steps; })
    rules.accumulation_steps = optimizer.gradient_accumulation_steps;
  require_count(O::name, "gradient_accumulation_steps", rules.accumulation_steps, 1);

  rules.variables.resize(variables.size());
  if constexpr (requires { optimizer.exclude_from_weight_decay; }) {
    const VariableFilter& excluded = optimizer.exclude_from_weight_decay;
    check_filter(O::name, "exclude_from_weight_decay", excluded, names);
    for (std::size_t i = 0; i < variables.size(); ++i)
      rules.variables[i].decays = !excluded.contains(names[i], variables[i].rank);
  }
  if constexpr (requires { optimizer.exclude_layers; })
    check_filter(O::name, "exclude_layers", optimizer.exclude_layers, names);
  if constexpr (requires { optimizer.exclude_from_layer_adaptation; })
    check_filter(O::name, "exclude_from_layer_adaptation", optimizer.exclude_from_layer_adaptation,
                 names);
  if constexpr (requires { optimizer.learning_rate_factors; })
    for (const LearningRateFactor& entry : optimizer.learning_rate_factors) {
      require_not_negative(O::name, "learning_rate_factors", entry.factor);
      check_filter(O::name, "learning_rate_factors", entry.variables, names);
      for (std::size_t i = 0; i < variables.size(); ++i)
        if (entry.variables.contains(names[i], variables[i].rank))
          rules.variables[i].learning_rate_factor *= entry.factor;
    }
  return rules;
}

/// The description of an optimizer: its own options, and those of several optimizers where they are
/// not the default, so that programs without them have the descriptions of saved states.
template <class O>
[[nodiscard]] std::string describe_optimizer(const O& optimizer,
                                             std::initializer_list<Option> own) {
  std::string text = describe(O::name, own);
  const auto add = [&](std::string_view name, const std::string& value) {
    text.insert(text.size() - 1, std::string(", ").append(name).append("=").append(value));
  };
  const auto add_number = [&](std::string_view name, double value) {
    if (value != 0) add(name, number_text(value));
  };
  if constexpr (requires { optimizer.amsgrad; })
    if (optimizer.amsgrad) add("amsgrad", "true");
  if constexpr (requires { optimizer.momentum_form; })
    if (optimizer.momentum != 0)
      add("momentum_form", optimizer.momentum_form == MomentumForm::keras ? "keras" : "pytorch");
  add_number("clipnorm", optimizer.clipnorm);
  add_number("clipvalue", optimizer.clipvalue);
  add_number("global_clipnorm", optimizer.global_clipnorm);
  const VariableFilter& excluded = optimizer.exclude_from_weight_decay;
  if (!excluded.empty()) add("exclude_from_weight_decay", excluded.description());
  for (const LearningRateFactor& entry : optimizer.learning_rate_factors)
    add("learning_rate_factor[" + entry.variables.description() + "]", number_text(entry.factor));
  if (optimizer.use_ema) {
    add("ema_momentum", number_text(optimizer.ema_momentum));
    if (optimizer.ema_overwrite_frequency != 0)
      add("ema_overwrite_frequency", std::to_string(optimizer.ema_overwrite_frequency));
  }
  if (optimizer.gradient_accumulation_steps != 1)
    add("gradient_accumulation_steps", std::to_string(optimizer.gradient_accumulation_steps));
  return text;
}

}  // namespace detail

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/optimizers/update_rules.ipp"
#endif
