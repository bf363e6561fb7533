// The updates of a worker whose parameters live on servers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/extra/parameter_server/parameter_servers.hpp"
#include "lockstep/extra/parameter_server/shard.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Sends each server the gradients of its shard, and gets the shard's parameters, with this update
/// and those of other workers in them. In rounds (max_staleness 0), status and untrained state are
/// those of all workers, as with an all-reduce; else they stay this worker's, and what the step has
/// changed in the untrained state is added to the servers'.
template <class T>
class ParameterServerUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  ParameterServerUpdater(const Parts<T>& parts, ParameterServers& servers)
      : Base(parts), servers_(servers) {
    const std::size_t status = parts.workspace.pack_status().size();
    const auto count = static_cast<std::size_t>(servers_.count());
    replies_.assign(count, std::vector<double>(status));
    exchanges_.resize(count);
  }

  [[nodiscard]] std::string_view name() const noexcept override {
    return servers_.in_rounds() ? "parameter servers, in rounds"
                                : "parameter servers, asynchronous";
  }

  typename Base::Progress begin(const UpdateStep& step) override {
    if (!servers_.is_in_fit)
      throw Error(
          "ParameterServerStrategy: parameters are updated by fit alone; a loop of the program's "
          "own and train_on_batch need another strategy");
    step_ = step;
    return Base::Progress::none;
  }
  void ready(std::size_t) override {}

  bool finish() override {
    auto& workspace = parts_.workspace;
    const auto begin = Trace::Clock::now();
    const TraceSpan span(step_.trace, TracePart::collective);
    const std::span<double> packed = workspace.pack_status();
    const Arena<T>& state = workspace.state();
    const bool in_rounds = servers_.in_rounds();
    if (!in_rounds) {
      const std::span<const T> before = workspace.state_before_step().values();
      each_untrained(parts_.program, state, packed, [&](const T& element, double& number) {
        const auto i = static_cast<std::size_t>(&element - state.values().data());
        number = static_cast<double>(element) - static_cast<double>(before[i]);
      });
    }
    for (std::size_t i = 0; i < exchanges_.size(); ++i) {
      const ShardRange range = shard_range(parts_.variables, i, exchanges_.size());
      exchanges_[i] = {.gradients = std::as_bytes(
                           workspace.gradients().values().subspan(range.begin, range.size)),
                       .parameters = std::as_writable_bytes(
                           parts_.variables.parameters().values().subspan(range.begin, range.size)),
                       .status = replies_[i]};
    }
    servers_.is_current = false;
    servers_.step(parts_.variables.learning_rate(), step_.stop_on_non_finite, servers_.next_place,
                  packed, exchanges_);
    std::ranges::copy(replies_.front(), packed.begin());
    if (in_rounds)
      workspace.take_status(2);  // or more
    else
      each_untrained(parts_.program, state, packed,
                     [](T& element, const double& number) { element = static_cast<T>(number); });
    workspace.in_collective += Trace::Clock::now() - begin;
    return step_.makes_update(workspace.status().values());
  }

 private:
  ParameterServers& servers_;
  std::vector<std::vector<double>> replies_;  // status, of each server
  std::vector<PsExchange> exchanges_;
  UpdateStep step_;
};

}}}  // namespace lockstep::detail
