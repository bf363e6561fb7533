// The updates of the threads of a process, which share the parameters.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Each thread sums a share of the gradients and updates the parameters of that share in one pass:
/// sums go from registers into the parameters. With large gradients it begins during backward, with
/// what all threads have ready.
template <class T>
class ThreadsUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  explicit ThreadsUpdater(const Parts<T>& parts) noexcept
      : Base(parts),
        is_early_(parts.replica.collective().can().scatter_early &&
                  parts.workspace.gradients().values().size_bytes() >= least_bytes) {}

  [[nodiscard]] std::string_view name() const noexcept override {
    return is_early_
               ? "each replica updates a share (reduce-scatter between threads, during backward)"
               : "each replica updates a share (reduce-scatter between threads)";
  }

  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    if (!is_early_) return Base::Progress::none;
    parts_.replica.collective().begin_reduce_scatter(
        std::span<const double>(parts_.workspace.status().values()),
        std::span<const T>(parts_.workspace.gradients().values()));
    return Base::Progress::variables;
  }

  void ready(std::size_t count) override {
    const TraceSpan span(step_.trace, TracePart::optimizer);
    parts_.replica.collective().advance_reduce_scatter(
        count, [this](std::span<const double> sums, std::size_t offset,
                      std::span<const T> gradients) { update(sums, offset, gradients); });
  }

  // The summation, and the wait until all have done theirs, count as the optimizer's time.
  bool finish() override {
    auto& workspace = parts_.workspace;
    auto& collective = parts_.replica.collective();
    const auto begin = Trace::Clock::now();
    std::optional<TraceSpan> span(std::in_place, step_.trace, TracePart::collective);
    bool begun = false;
    collective.reduce_scatter(
        workspace.pack_status(), workspace.gradients().values(),
        [&](std::span<const double> sums, std::size_t offset, std::span<const T> gradients) {
          if (!std::exchange(begun, true)) {
            workspace.in_collective += Trace::Clock::now() - begin;
            span.reset();
            span.emplace(step_.trace, TracePart::optimizer);
          }
          update(sums, offset, gradients);
        });
    workspace.take_status(collective.size());
    return step_.makes_update(workspace.status().values());
  }

 private:
  // Smaller gradients wait in the caches of their threads; taking them from there during backward
  // costs more than it saves.
  static constexpr std::size_t least_bytes = std::size_t{4} << 20;

  void update(std::span<const double> sums, std::size_t offset,
              std::span<const T> gradients) const {
    if (step_.makes_update(sums))
      parts_.variables.update(
          parts_.variables.parameters().values().subspan(offset, gradients.size()), gradients,
          offset, step_.rows(sums), step_.iteration);
  }

  UpdateStep step_;
  const bool is_early_;
};

}}}  // namespace lockstep::detail
