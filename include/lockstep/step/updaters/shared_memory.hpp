// The updates of processes that share memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Each rank updates a share of the parameters for all ranks: Xu et al., "Automatic cross-replica
/// sharding of weight update in data-parallel training", 2020. The new parameters take the place of
/// the gradients, and become the parameters when all ranks have done their shares. Until then the
/// former ones are only read: a rank that fails has them as they were. (See can_update_for_all.)
template <class T>
class SharedMemoryUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  explicit SharedMemoryUpdater(const Parts<T>& parts) noexcept : Base(parts) {}

  [[nodiscard]] std::string_view name() const noexcept override {
    return "each worker updates a share (reduce-scatter and all-gather in shared memory)";
  }

  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    return Base::Progress::none;
  }
  void ready(std::size_t) override {}

  bool finish() override {
    auto& workspace = parts_.workspace;
    auto& collective = parts_.replica.collective();
    const auto begin = Trace::Clock::now();
    std::optional<TraceSpan> span(std::in_place, step_.trace, TracePart::collective);
    bool begun = false;
    collective.reduce_scatter_all_gather(
        workspace.pack_status(), workspace.gradients().values(),
        [&](std::span<const double> sums, std::size_t offset, std::span<const T> gradients,
            std::span<T> parameters) {
          if (!std::exchange(begun, true)) {
            workspace.in_collective += Trace::Clock::now() - begin;
            span.reset();
            span.emplace(step_.trace, TracePart::optimizer);
          }
          const std::span<const T> former =
              parts_.variables.parameters().values().subspan(offset, gradients.size());
          std::copy(former.begin(), former.end(), parameters.begin());
          if (step_.makes_update(sums))
            parts_.variables.update(parameters, gradients, offset, step_.rows(sums),
                                    step_.iteration);
        });
    parts_.variables.swap_parameters(workspace.gradients());
    workspace.take_status(collective.size());
    return step_.makes_update(workspace.status().values());
  }

 private:
  UpdateStep step_;
};

}}}  // namespace lockstep::detail
