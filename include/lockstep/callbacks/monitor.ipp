#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "lockstep/callbacks/monitor.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE std::optional<bool> greater_is_better(std::string_view figure) {
  static constexpr std::array<std::string_view, 17> up{"acc",
                                                       "accuracy",
                                                       "auc",
                                                       "precision",
                                                       "recall",
                                                       "score",
                                                       "similarity",
                                                       "io_u",
                                                       "iou",
                                                       "meaniou",
                                                       "correlation",
                                                       "sensitivity",
                                                       "specificity",
                                                       "true_positives",
                                                       "true_negatives",
                                                       "psnr",
                                                       "bleu"};
  static constexpr std::array<std::string_view, 18> down{"loss",
                                                         "error",
                                                         "crossentropy",
                                                         "hinge",
                                                         "divergence",
                                                         "poisson",
                                                         "logcosh",
                                                         "log_cosh",
                                                         "huber",
                                                         "perplexity",
                                                         "mse",
                                                         "rmse",
                                                         "mae",
                                                         "mape",
                                                         "msle",
                                                         "false_positives",
                                                         "false_negatives",
                                                         "learning_rate"};
  if (figure.starts_with("val_")) figure.remove_prefix(4);
  if (const auto end = figure.find_last_not_of("0123456789");
      end != std::string_view::npos && end + 1 < figure.size() && figure[end] == '_')
    figure = figure.substr(0, end);
  const auto ends_with = [&](std::string_view name) {
    return figure.ends_with(name) &&
           (figure.size() == name.size() || figure[figure.size() - name.size() - 1] == '_');
  };
  if (std::any_of(up.begin(), up.end(), ends_with)) return true;
  if (std::any_of(down.begin(), down.end(), ends_with)) return false;
  return std::nullopt;
}

LOCKSTEP_INLINE std::string names_of(const Logs& logs) {
  std::string names;
  for (const auto& [name, ignored] : logs) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "nothing" : names;
}

LOCKSTEP_INLINE bool is_of_other_epochs(std::string_view figure, const Training& training,
                                        const Logs& logs) {
  constexpr std::string_view validated = "val_";
  return figure.starts_with(validated) && training.has_validation() &&
         std::none_of(logs.begin(), logs.end(),
                      [&](const auto& log) { return log.first.starts_with(validated); });
}

LOCKSTEP_INLINE void require_option(std::string_view callback, std::string_view option,
                                    double least, double value) {
  if (!(value >= least))
    throw ConfigurationError(
        concat({callback, ": ", option, " must be at least ", least, ", got ", value}));
}

LOCKSTEP_INLINE bool greater_is_better(std::string_view callback, std::string_view figure,
                                       MonitorMode mode) {
  if (mode != MonitorMode::automatic) return mode == MonitorMode::max;
  if (const auto known = greater_is_better(figure)) return *known;
  throw ConfigurationError(
      concat({callback, ": monitor: whether more or less of '", figure,
              "' is better is not known: give .mode = MonitorMode::max or MonitorMode::min, if the "
              "name is right"}));
}

LOCKSTEP_INLINE Monitor::Monitor(std::string_view callback, std::string figure, MonitorMode mode,
                                 double min_delta)
    : callback_(callback),
      figure_(std::move(figure)),
      greater_is_better_(greater_is_better(callback_, figure_, mode)),
      min_delta_(std::abs(min_delta)) {
  if (!std::isfinite(min_delta))
    throw ConfigurationError(concat({callback_, ": min_delta must be finite, got ", min_delta}));
}

LOCKSTEP_INLINE const double* Monitor::find(const Training& training, const Logs& logs) {
  const double* const value = logs.find(figure_);
  if (value == nullptr && !is_of_other_epochs(figure_, training, logs) &&
      !std::exchange(has_warned_, true) && training.is_chief())
    log_warning(concat({callback_, ": monitor: the logs have no '", figure_,
                        "', so that it does nothing; available: ", names_of(logs)}));
  return value;
}

LOCKSTEP_INLINE bool Monitor::is_better(double value,
                                        const std::optional<double>& reference) const noexcept {
  if (std::isnan(value)) return false;
  if (!reference) return true;
  return greater_is_better_ ? value - min_delta_ > *reference : value + min_delta_ < *reference;
}

}}}  // namespace lockstep::detail
