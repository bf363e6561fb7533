// Compiled: a network, a loss, an optimizer and metrics as a Program.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/step_context.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/layers/activation_function.hpp"
#include "lockstep/layers/flop.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/losses/concepts.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "lockstep/metrics/metric_rows.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_names.hpp"
#include "lockstep/network/layer_place.hpp"
#include "lockstep/network/loss_scale.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/step/constraints.hpp"
#include "lockstep/step/program.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The one class of training that is a template of the user's types.
template <class Net, class T, class LossType, class OptimizerType, class... Metrics>
class Compiled final : public Program<T> {
 public:
  using Scalar = T;
  using In = typename Net::InputShape;
  using Out = typename Net::template Output<In>;
  static constexpr std::size_t target_size = LossType::template target_size<TokenOf<Out>>;

  /// Throws ConfigurationError for options that make no sense, and names that cannot be saved.
  Compiled(LossType loss_function, OptimizerType optimizer_settings,
           std::tuple<Metrics...> metric_list)
      : Program<T>({.variables = Net::template variables<In>,
                    .state_variables = Net::template state_variables<In>,
                    .inputs = In::size,
                    .targets = target_size,
                    .outputs = outputs,
                    .positions = positions_of<Out>,
                    .metric_state = state_size_of_all(metric_list),
                    .slots = optimizer_settings.slots(),
                    .has_optimizer = !std::same_as<OptimizerType, NoOptimizer>,
                    .data = {.input = In::extents,
                             .targets = target_size * positions_of<Out>,
                             .loss = LossType::name,
                             .target_advice = target_advice(),
                             .has_several_losses = has_several_losses,
                             .positions = positions_of<Out>},
                    .layers = layers(),
                    .device = device_of_net(),
                    .policy = policy(),
                    .loss_scale = loss_scale(),
                    .flop = flop}),
        loss_(std::move(loss_function)),
        optimizer_(std::move(optimizer_settings)),
        metrics_(std::move(metric_list)) {
    if constexpr (requires { Net::template check_names<In>(); }) Net::template check_names<In>();
    check_variable_names(Net::template variable_names<In>(),
                         Net::template state_variable_names<In>());
    check_variable_options(this->layout().variables, Net::template variable_names<In>());
    if constexpr (requires { loss_.validate(); }) loss_.validate();
    if constexpr (requires { optimizer_.validate(); }) optimizer_.validate();
    each_metric([&](const auto& metric, std::size_t, std::size_t) {
      if constexpr (requires { metric.validate(); }) metric.validate();
      add_metric_name(metric_names_, metric.name, is_weighted(metric));
    });
    if (optimizer_.slots() > Program<T>::max_slots)
      throw ConfigurationError(
          concat({"compile: the optimizer wants ", optimizer_.slots(), " slots, at most ",
                  Program<T>::max_slots, " are supported"}));
  }

  [[nodiscard]] ProgramNames names() const override {
    return {.layers = Net::template layer_names<In>(),
            .variables = Net::template variable_names<In>(),
            .state_variables = Net::template state_variable_names<In>(),
            .order = Net::template variable_order<In>()};
  }
  [[nodiscard]] std::string input_description() const override {
    return "input: " + In::to_string();
  }
  [[nodiscard]] std::string parts_description() const override {
    std::string text = concat({"output: ", Out::to_string(), "\nloss: ", loss_.description(),
                               "\noptimizer: ", optimizer_.description()});
    std::size_t number = 0;
    each_metric([&](const auto& metric, std::size_t, std::size_t) {
      const std::string& name = metric_names_[number++];
      text += concat({"\nmetric: ", name});
      if constexpr (requires { metric.description(); })
        if (const std::string options = metric.description(); options != name)
          text += concat({" = ", options});
    });
    return text +
           describe_variable_options(this->layout().variables, Net::template variable_names<In>());
  }

  [[nodiscard]] std::string takers_of_logits() const override {
    std::string takers;
    if constexpr (ends_linearly<Net>) {
      if (takes_probabilities(loss_)) takers = concat({"the loss ", LossType::name});
      each_metric([&](const auto& metric, std::size_t, std::size_t) {
        if (takes_probabilities(metric))
          takers += concat({takers.empty() ? "" : " and ", "the metric ", metric.name});
      });
    }
    return takers;
  }

  [[nodiscard]] std::size_t scratch(std::size_t samples) const override {
    return scratch_of<Net, In>(samples);
  }
  [[nodiscard]] std::size_t temporary(std::size_t samples) const override {
    if constexpr (requires { Net::template temporary<In>(samples); })
      return temporary_of<Net, In>(samples);
    else
      return 0;
  }
  void forward(const ForwardPass<T>& pass) const override { Net::template forward<In, T>(pass); }
  void backward(const BackwardPass<T>& pass) const override {
    Net::template backward_weights<In, T>(pass);
  }
  void each_output(const ForwardPass<T>& pass, typename Program<T>::EachOutput f) const override {
    if constexpr (requires { Net::template each_output<In, T>(0, pass, f); })
      Net::template each_output<In, T>(0, pass, f);
  }

  void compute_loss(TensorView<const T> predictions, TensorView<const T> targets,
                    std::span<double> losses, TensorView<T> gradient) const override {
    loss_.compute(predictions, targets, losses, gradient);
  }
  [[nodiscard]] bool ignore(TensorView<const T> targets, std::span<T> weights) const override {
    if constexpr (IgnoringLoss<LossType, T>)
      return loss_.ignore(targets, weights);
    else
      return false;
  }
  void update_metrics(TensorView<const T> predictions, TensorView<const T> targets,
                      std::span<const T> weights, std::span<const T> sample_weights,
                      std::span<double> state) const override {
    each_metric([&](const auto& metric, std::size_t offset, std::size_t size) {
      metric.update(predictions, targets, is_weighted(metric) ? sample_weights : weights,
                    state.subspan(offset, size));
    });
  }
  void report_metrics(std::span<const double> state, Logs& logs,
                      const std::string& prefix) const override {
    std::size_t number = 0;
    each_metric([&](const auto& metric, std::size_t offset, std::size_t size) {
      const std::string key = prefix + metric_names_[number++];
      const auto set = [&](std::string_view suffix, double figure) {
        logs.set(concat({key, suffix}), figure);
      };
      if constexpr (requires { metric.report(state, set); })
        metric.report(state.subspan(offset, size), set);
      else
        logs.set(key, metric.result(state.subspan(offset, size)));
    });
  }

  void update(const UpdateContext& context, std::span<T> parameters, std::span<const T> gradients,
              std::span<T* const> slots) const override {
    if constexpr (requires { Net::update(optimizer_, context, parameters, gradients, slots); })
      Net::update(optimizer_, context, parameters, gradients, slots);
    else
      optimizer_.update(context, parameters, gradients, slots);
  }
  [[nodiscard]] double initial_learning_rate() const override {
    return static_cast<double>(optimizer_.learning_rate);
  }
  [[nodiscard]] double initial_slot_value() const override {
    if constexpr (requires { optimizer_.initial_slot_value(); })
      return static_cast<double>(optimizer_.initial_slot_value());
    else
      return 0;
  }
  [[nodiscard]] UpdateRules update_rules() const override {
    return detail::update_rules(optimizer_, Net::template variable_names<In>(),
                                this->layout().variables);
  }
  [[nodiscard]] const OptimizerType& optimizer() const noexcept { return optimizer_; }
  void keras_slots(KerasSlots& list) const override {
    if constexpr (requires { optimizer_.keras_slots(list); }) {
      list.optimizer = OptimizerType::name;
      optimizer_.keras_slots(list);
    }
  }

 private:
  static constexpr std::span<const LayerInfo> layers() {
    if constexpr (requires { std::span<const LayerInfo>(Net::template layers<In>); })
      return Net::template layers<In>;
    else
      return {};
  }
  static ComputeDevice* device_of_net() {
    if constexpr (requires { Net::device(); })
      return &Net::device();
    else
      return nullptr;
  }
  static constexpr std::string_view policy() {
    if constexpr (requires { Net::policy; })
      return Net::policy;
    else
      return {};
  }
  static constexpr std::optional<LossScaleOptions> loss_scale() {
    if constexpr (requires { Net::loss_scale; })
      return Net::loss_scale;
    else
      return {};
  }
  static constexpr std::string_view target_advice() {
    if constexpr (requires { LossType::target_advice; })
      return LossType::target_advice;
    else
      return {};
  }

  static constexpr std::size_t outputs = TokenOf<Out>::size;
  static constexpr Flop flop = flop_of<Net, In>();
  static constexpr bool has_several_losses =
      detail::has_parts<LossType> || requires { LossType::has_steps; };

  static std::size_t state_size_of_all([[maybe_unused]] const std::tuple<Metrics...>& metrics) {
    return std::apply(
        [](const auto&... metric) {
          return (std::size_t{0} + ... + state_size_of(metric, outputs));
        },
        metrics);
  }

  template <class M>
  static constexpr bool is_weighted(const M&) {
    if constexpr (requires { M::is_weighted; })
      return M::is_weighted;
    else
      return false;
  }

  /// Calls f(metric, offset, size), with the place of its state in that of all.
  template <class F>
  void each_metric(F&& f) const {
    std::size_t offset = 0;
    const auto visit = [&](const auto& metric) {
      const std::size_t size = state_size_of(metric, outputs);
      f(metric, offset, size);
      offset += size;
    };
    std::apply([&](const auto&... metric) { (visit(metric), ...); }, metrics_);
  }

  LossType loss_;
  OptimizerType optimizer_;
  std::tuple<Metrics...> metrics_;
  std::vector<std::string> metric_names_;  ///< in the logs
};

}}}  // namespace lockstep::detail
