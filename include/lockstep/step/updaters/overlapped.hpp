// All-reduces that begin before backward has ended.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/step/updater.hpp"
#include "lockstep/step/updaters/all_reduce.hpp"
#include "lockstep/step/updaters/early_ranges.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Takes the gradients of a step as they become ready, and reduces them in ranges (see
/// EarlyRanges).
template <class T>
class OverlappedUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  explicit OverlappedUpdater(const Parts<T>& parts) noexcept
      : Base(parts),
        ranges_(parts.workspace.gradients().values().size(), parts.replica.collective().size()) {}

  [[nodiscard]] std::string_view name() const noexcept override {
    return "all-reduce, overlapped with backward";
  }

  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    ranges_.begin_step();
    return ranges_.empty() ? Base::Progress::none : Base::Progress::gradients;
  }

  void ready(std::size_t count) override {
    ranges_.ready(count, [this](std::size_t begin, std::size_t size) {
      parts_.replica.collective().all_reduce_async(
          parts_.workspace.gradients().values().subspan(begin, size));
    });
  }

  bool finish() override {
    auto& workspace = parts_.workspace;
    auto& collective = parts_.replica.collective();
    {
      const auto begin = Trace::Clock::now();
      const TraceSpan span(step_.trace, TracePart::collective);
      collective.all_reduce(workspace.pack_status(),
                            workspace.gradients().values().subspan(ranges_.begun()));
      collective.wait();
      workspace.take_status(collective.size());
      workspace.in_collective += Trace::Clock::now() - begin;
    }
    return update_part(parts_, step_);
  }

 private:
  UpdateStep step_;
  EarlyRanges ranges_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
