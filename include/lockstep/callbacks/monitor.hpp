// Monitor: a figure of the logs by which a callback decides, and which of its values is better.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Which of two values of a figure is better.
enum class MonitorMode {
  automatic,  ///< the lower of a loss or an error, the greater of an accuracy, by the name
  min,
  max,
};

namespace detail {

/// Whether more of the figure is better ("val_accuracy": true, "loss": false); nothing when its
/// name does not tell. The names are those of Keras's losses and metrics, also behind the name of
/// an output ("digit_accuracy") and in front of a number ("auc_1").
[[nodiscard]] std::optional<bool> greater_is_better(std::string_view figure);

/// Whether more of the figure is better, by the mode or, where that is automatic, by the name.
/// Throws ConfigurationError when neither tells.
[[nodiscard]] bool greater_is_better(std::string_view callback, std::string_view figure,
                                     MonitorMode mode);

/// "loss, accuracy"; "nothing".
[[nodiscard]] std::string names_of(const Logs& logs);

/// Whether the logs lack the figure only because this epoch is not validated, and others are
/// (FitOptions::validation_freq).
[[nodiscard]] bool is_of_other_epochs(std::string_view figure, const Training& training,
                                      const Logs& logs);

/// Throws ConfigurationError when an option of a callback is below `least`.
void require_option(std::string_view callback, std::string_view option, double least, double value);

/// The monitored figure of one callback.
class Monitor {
 public:
  /// Only a difference of more than |min_delta| is an improvement. Throws ConfigurationError when
  /// the mode is automatic and the figure's name does not tell which values are better.
  Monitor(std::string_view callback, std::string figure, MonitorMode mode, double min_delta);

  /// The value of the figure; null where the logs lack it, which the chief says once, naming what
  /// there is.
  [[nodiscard]] const double* find(const Training& training, const Logs& logs);

  /// Whether `value` improves on `reference`; any number improves on none. NaN is no improvement.
  /// (In Keras a NaN in the first epoch stays the best value, as nothing is less than it.)
  [[nodiscard]] bool is_better(double value, const std::optional<double>& reference) const noexcept;

 private:
  std::string callback_;
  std::string figure_;
  bool greater_is_better_;
  double min_delta_;
  bool has_warned_ = false;
};

}  // namespace detail
}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/callbacks/monitor.ipp"
#endif
