// The status block: what the ranks must agree on, reduced together with the gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What a rank asks of all ranks.
struct Requests {
  bool stop = false;  ///< to end training after this step: it is done
  /// To end it after this step and to continue it later: interrupted or terminated.
  ExitCode preemption = ExitCode::success;
  bool verify = false;   ///< to compare the replicas after this step
  bool regroup = false;  ///< to take in a new worker

  /// Adds later requests. The first preemption counts.
  void add(const Requests& later) noexcept {
    stop |= later.stop;
    verify |= later.verify;
    regroup |= later.regroup;
    if (preemption == ExitCode::success) preemption = later.preemption;
  }
};

/// The first doubles of each step's reduction. All are summed over the ranks; whole numbers are
/// exact up to 2^53.
class StatusBlock {
 public:
  /// `rows`: the number of losses in loss_sum: of samples or, where the output is a Sequence, of
  /// tokens that are not masked. `penalty_sum`: of the outputs of all samples.
  enum Field : std::size_t {
    samples,
    loss_sum,
    has_next,
    non_finite,
    stop,
    interrupted,
    terminated,
    rows,
    penalty_sum,
    field_count
  };

  /// Zeros. `metric_state`: doubles of all metrics.
  explicit StatusBlock(std::size_t metric_state)
      : values_(field_count + metric_state + asked_behind) {}

  void clear() noexcept { std::fill(values_.begin(), values_.end(), 0.0); }
  [[nodiscard]] double& operator[](Field field) noexcept { return values_[field]; }
  [[nodiscard]] double operator[](Field field) const noexcept { return values_[field]; }

  void ask(const Requests& requests) noexcept {
    values_[stop] = requests.stop ? 1 : 0;
    values_[interrupted] = requests.preemption == ExitCode::interrupted ? 1 : 0;
    values_[terminated] = requests.preemption == ExitCode::terminated ? 1 : 0;
    values_[values_.size() - 2] = requests.verify ? 1 : 0;
    values_.back() = requests.regroup ? 1 : 0;
  }
  /// What any rank has asked. SIGTERM takes precedence over SIGINT, so that all ranks end with the
  /// same code.
  [[nodiscard]] Requests asked() const noexcept {
    return {.stop = values_[stop] > 0,
            .preemption = values_[terminated] > 0    ? ExitCode::terminated
                          : values_[interrupted] > 0 ? ExitCode::interrupted
                                                     : ExitCode::success,
            .verify = values_[values_.size() - 2] > 0,
            .regroup = values_.back() > 0};
  }

  /// Where a loss scale applies: the sum of the squares of this rank's part of the gradients, and
  /// after the reduction the sum over all ranks. Otherwise 0.
  [[nodiscard]] double& gradient_squares() noexcept { return values_[values_.size() - 3]; }
  /// Whether the update was left out as a gradient was not finite.
  [[nodiscard]] bool has_overflowed() const noexcept {
    return !std::isfinite(values_[values_.size() - 3]);
  }

  /// The states of all metrics, one after the other.
  [[nodiscard]] std::span<double> metrics() noexcept {
    return std::span(values_).subspan(field_count, metric_state());
  }
  [[nodiscard]] std::span<const double> metrics() const noexcept {
    return std::span(values_).subspan(field_count, metric_state());
  }

  /// What a file keeps of an epoch's sums: all but the requests for a single step.
  [[nodiscard]] std::span<const double> saved() const noexcept {
    return std::span(values_).first(field_count + metric_state());
  }

  /// All of it, for the collective.
  [[nodiscard]] std::span<double> values() noexcept { return values_; }
  [[nodiscard]] std::span<const double> values() const noexcept { return values_; }

  /// Adds the sums of another block (running averages over the steps of an epoch).
  void accumulate(const StatusBlock& other) noexcept {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += other.values_[i];
  }

 private:
  [[nodiscard]] std::size_t metric_state() const noexcept {
    return values_.size() - field_count - asked_behind;
  }

  static constexpr std::size_t asked_behind = 3;

  std::vector<double> values_;  // fields, metrics, gradient_squares, Requests::verify and regroup
};

}}}  // namespace lockstep::detail
