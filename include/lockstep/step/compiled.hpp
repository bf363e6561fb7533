// What compile() puts together, without the strategy: one per process.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/network/name_checks.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/step/data_sizes.hpp"
#include "lockstep/step/model_state.hpp"
#include "lockstep/step/replica_state.hpp"
#include "lockstep/step/status_block.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Net with its loss, optimizer, metrics and variables.
template <class NetType, class T, class LossType, class OptimizerType, class... Metrics>
struct Compiled {
  using Net = NetType;
  using Scalar = T;
  using In = typename Net::InputShape;
  using Out = typename Net::template Output<In>;
  static constexpr std::size_t target_size = LossType::template target_size<Out>;
  static constexpr bool has_targets = target_size > 0;
  static constexpr std::size_t max_slots = 8;
  static constexpr std::size_t metric_state = (std::size_t{0} + ... + Metrics::state_size);
  using Status = StatusBlock<metric_state>;
  static constexpr DataSizes data_sizes{
      .input = In::extents, .targets = target_size, .loss = LossType::name, .target_advice = [] {
        if constexpr (requires { LossType::target_advice; })
          return std::string_view(LossType::target_advice);
        else
          return std::string_view();
      }()};
  using Replica = ReplicaState<Net, T, target_size>;

  LossType loss;
  OptimizerType optimizer;
  std::tuple<Metrics...> metrics;
  ModelState<Net, T> state;

  Compiled(LossType loss_function, OptimizerType optimizer_settings, std::tuple<Metrics...> metric_list)
      : loss(std::move(loss_function)),
        optimizer(std::move(optimizer_settings)),
        metrics(std::move(metric_list)),
        state(optimizer.slots()) {
    if constexpr (requires { Net::template check_names<In>(); }) Net::template check_names<In>();
    check_variable_names(Net::template variable_names<In>(), Net::template state_variable_names<In>());
    if constexpr (requires { loss.validate(); }) loss.validate();
    if constexpr (requires { optimizer.validate(); }) optimizer.validate();
    if (optimizer.slots() > max_slots)
      throw ConfigurationError(concat(
          {"compile: the optimizer wants ", optimizer.slots(), " slots, at most ", max_slots, " are supported"}));
    state.learning_rate = static_cast<double>(optimizer.learning_rate);
    if constexpr (requires { optimizer.initial_slot_value(); })
      for (const Arena<T>& slot : state.slots())
        for (const std::span<T> slice : slot.slices())
          for (T& value : slice) value = static_cast<T>(optimizer.initial_slot_value());
  }

  /// Adds a batch to the status block: the samples of `replica` after forward, with the loss of that batch.
  void record(const Replica& replica, double loss_sum, Status& status) const {
    status[Status::samples] += static_cast<double>(replica.x().samples());
    status[Status::loss_sum] += loss_sum;
    if (!std::isfinite(loss_sum)) status[Status::non_finite] += 1;
    const TensorView<const T> targets = replica.targets();
    each_metric([&](const auto& metric, std::size_t offset) {
      metric.update(replica.predictions(), targets,
                    std::span<double>(status.metrics()).subspan(offset, metric.state_size));
    });
  }

  /// Mean loss and metrics, under names with a prefix ("val_").
  void report(const Status& status, Logs& logs, const std::string& prefix = {}) const {
    const double samples = status[Status::samples];
    logs.set(prefix + "loss", samples > 0 ? status[Status::loss_sum] / samples : 0.0);
    each_metric([&](const auto& metric, std::size_t offset) {
      logs.set(prefix + std::string(metric.name),
               metric.result(std::span<const double>(status.metrics()).subspan(offset, metric.state_size)));
    });
  }

  /// Applies the reduced gradients of the parameters from `begin` on.
  void update(std::span<const T> gradients, std::size_t begin, double samples, std::int64_t iteration) const {
    update(state.parameters().values().subspan(begin, gradients.size()), gradients, begin, samples, iteration);
  }
  /// The same where these parameters are in `parameters`.
  void update(std::span<T> parameters, std::span<const T> gradients, std::size_t begin, double samples,
              std::int64_t iteration) const {
    T* slots[max_slots] = {};
    const std::size_t slot_count = state.slots().size();
    for (std::size_t i = 0; i < slot_count; ++i) slots[i] = state.slots()[i].values().data() + begin;
    optimizer.update(
        UpdateContext{.iteration = iteration, .learning_rate = state.learning_rate, .gradient_scale = 1.0 / samples},
        parameters, gradients, std::span<T* const>(slots, slot_count));
  }

  /// What ranks must have in common, a line for each thing.
  [[nodiscard]] std::string signature() const {
    std::string text = concat({"scalar type: ", scalar_name<T>(), "\ninput: ", In::to_string(), "\n"});
    const auto names = state.names();
    for (std::size_t i = 0; i < names.size(); ++i)
      text += concat({"model layout: ", names[i], " ", shape_text(state.variables[i].shape()), "\n"});
    text += concat(
        {"output: ", Out::to_string(), "\nloss: ", loss.description(), "\noptimizer: ", optimizer.description()});
    each_metric([&](const auto& metric, std::size_t) { text += concat({"\nmetric: ", metric.name}); });
    return text;
  }

 private:
  template <class F>
  void each_metric(F&& f) const {
    std::size_t offset = 0;
    std::apply([&](const auto&... metric) { ((f(metric, offset), offset += metric.state_size), ...); }, metrics);
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
