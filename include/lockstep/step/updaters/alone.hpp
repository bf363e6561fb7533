// The updates of a replica that is alone.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Updates parameters as soon as backward is done with them, while they and their gradients are in
/// the caches.
template <class T>
class AloneUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  explicit AloneUpdater(const Parts<T>& parts) noexcept : Base(parts) {}

  [[nodiscard]] std::string_view name() const noexcept override {
    return "each layer, as soon as backward is done with it";
  }

  [[nodiscard]] bool reads_gradients() const noexcept override { return false; }
  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    updated_ = 0;
    makes_update_ = step.makes_update(parts_.workspace.status().values());
    return Base::Progress::variables;
  }
  void ready(std::size_t count) override {
    if (count >= updated_ + least) update_until(count / alignment * alignment);
  }
  bool finish() override {
    update_until(parts_.workspace.gradients().values().size());
    return makes_update_;
  }

 private:
  static constexpr std::size_t least = 8192;    // elements that are worth a call
  static constexpr std::size_t alignment = 16;  // of what optimizers are given

  void update_until(std::size_t end) {
    const TraceSpan span(step_.trace, TracePart::optimizer);
    const std::size_t count = end - updated_;
    if (makes_update_)
      parts_.variables.update(parts_.variables.parameters().values().subspan(updated_, count),
                              parts_.workspace.gradients().values().subspan(updated_, count),
                              updated_, step_.rows(parts_.workspace.status().values()),
                              step_.iteration);
    updated_ = end;
  }

  UpdateStep step_;
  bool makes_update_ = false;
  std::size_t updated_ = 0;
};

}}}  // namespace lockstep::detail
