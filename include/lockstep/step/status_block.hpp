// The status block: what the ranks must agree on, reduced together with the gradients.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What a rank asks of all ranks: to end training after this step,
struct Requests {
  bool stop = false;                        ///< as done, or
  ExitCode preemption = ExitCode::success;  ///< to be continued: interrupted or terminated;
  bool verify = false;                      ///< or to compare the replicas after it

  /// Adds later requests. The first preemption counts.
  void add(const Requests& later) noexcept {
    stop |= later.stop;
    verify |= later.verify;
    if (preemption == ExitCode::success) preemption = later.preemption;
  }
};

/// The first doubles of each step's reduction. All are summed over the ranks; whole numbers are exact up to 2^53.
template <std::size_t MetricState>
class StatusBlock {
 public:
  enum Field : std::size_t { samples, loss_sum, has_next, non_finite, stop, interrupted, terminated, field_count };

  void clear() noexcept { values_.fill(0); }
  [[nodiscard]] double& operator[](Field field) noexcept { return values_[field]; }
  [[nodiscard]] double operator[](Field field) const noexcept { return values_[field]; }

  void ask(const Requests& requests) noexcept {
    values_[stop] = requests.stop ? 1 : 0;
    values_[interrupted] = requests.preemption == ExitCode::interrupted ? 1 : 0;
    values_[terminated] = requests.preemption == ExitCode::terminated ? 1 : 0;
    values_.back() = requests.verify ? 1 : 0;
  }
  /// What any rank has asked. SIGTERM goes before SIGINT, so that all ranks end with the same code.
  [[nodiscard]] Requests asked() const noexcept {
    return {.stop = values_[stop] > 0,
            .preemption = values_[terminated] > 0    ? ExitCode::terminated
                          : values_[interrupted] > 0 ? ExitCode::interrupted
                                                     : ExitCode::success,
            .verify = values_.back() > 0};
  }

  /// Whether a step with these sums (a status block, or its values) changes parameters.
  template <class Sums>
  [[nodiscard]] static bool makes_update(const Sums& sums, bool stop_on_non_finite) noexcept {
    return sums[samples] > 0 && !(stop_on_non_finite && sums[non_finite] > 0);
  }

  /// The states of all metrics, one after the other.
  [[nodiscard]] std::span<double, MetricState> metrics() noexcept {
    return std::span<double, MetricState>(values_.data() + field_count, MetricState);
  }
  [[nodiscard]] std::span<const double, MetricState> metrics() const noexcept {
    return std::span<const double, MetricState>(values_.data() + field_count, MetricState);
  }

  /// What a file keeps of an epoch's sums: all but the requests for a single step.
  [[nodiscard]] std::span<const double> saved() const noexcept {
    return std::span<const double>(values_).first(field_count + MetricState);
  }

  /// All of it, for the collective.
  [[nodiscard]] std::span<double> values() noexcept { return values_; }
  [[nodiscard]] std::span<const double> values() const noexcept { return values_; }

  /// Adds the sums of another block (running averages over the steps of an epoch).
  void accumulate(const StatusBlock& other) noexcept {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += other.values_[i];
  }

 private:
  std::array<double, field_count + MetricState + 1> values_{};  // fields, metrics, Requests::verify
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
