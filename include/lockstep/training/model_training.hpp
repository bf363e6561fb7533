// The part of Training that fit, evaluate and predict share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/network/layer_names.hpp"
#include "lockstep/network/model_json.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/keras_layout.hpp"
#include "lockstep/training/keras_optimizer.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/served_variables.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
class Trainer;  // trainer.hpp, which needs this header

/// Training over a Trainer. On its own it serves evaluate and predict, where nothing is trained and
/// a request to stop or to restore means nothing.
template <class T>
class ModelTraining : public Training {
 public:
  explicit ModelTraining(Trainer<T>& trainer) : trainer_(trainer) {}

  void stop_training() override {}
  void preempt_on_signals() override {}
  void request_preemption(ExitCode) override {}
  [[nodiscard]] double learning_rate() const override {
    return trainer_.variables().learning_rate();
  }
  void set_learning_rate(double learning_rate) override {
    check_learning_rate(learning_rate, trainer_.variables().has_schedule());
    trainer_.rank_state().set_learning_rate(learning_rate);
  }
  [[nodiscard]] std::int64_t iterations() const override { return trainer_.variables().iterations; }
  [[nodiscard]] bool is_chief() const override { return trainer_.strategy().is_chief(); }
  [[nodiscard]] int worker_index() const override { return trainer_.strategy().worker_index(); }
  [[nodiscard]] int num_workers() const override { return trainer_.strategy().num_workers(); }
  [[nodiscard]] std::span<const RankTime> rank_times() const override { return {}; }
  [[nodiscard]] ModelText model_text() const override {
    const auto layers = trainer_.program().layout().layers;
    if (layers.empty()) return {};
    return {.summary = summary_of("sequential", layers),
            .json = model_json("sequential", layers, scalar_name<T>())};
  }
  [[nodiscard]] KerasLayout keras_layout() const override {
    return keras_layout_of(trainer_.program().layout().layers);
  }
  [[nodiscard]] KerasOptimizer keras_optimizer(const TrainingState& state) const override {
    return keras_optimizer_of(trainer_, state);
  }
  [[nodiscard]] TrainingState state(TrainingState reused = {}) const override {
    trainer_.catch_up();
    return detail::save_state(trainer_, std::move(reused));
  }
  [[nodiscard]] std::uint64_t state_bytes() const override { return detail::state_bytes(trainer_); }
  [[nodiscard]] bool has_averages() const override { return trainer_.variables().has_averages(); }
  [[nodiscard]] bool shows_averages() const override {
    return trainer_.variables().shows_averages();
  }
  void swap_averages() override { trainer_.variables().swap_averages(); }
  void verify_after_step() override {}
  [[nodiscard]] bool is_verified() const override { return true; }
  void restore(std::vector<std::byte>, DecodeState) override {}
  void rejoin_on_peer_loss(EncodeState, DecodeState) override {}

  [[nodiscard]] std::vector<std::byte> parameters() const override {
    const auto trained = std::as_bytes(trainer_.variables().parameters().values());
    const auto untrained = std::as_bytes(trainer_.workspace(0).state().values());
    std::vector<std::byte> bytes;
    bytes.reserve(trained.size() + untrained.size());
    bytes.insert(bytes.end(), trained.begin(), trained.end());
    bytes.insert(bytes.end(), untrained.begin(), untrained.end());
    return bytes;
  }
  void set_parameters(std::span<const std::byte> parameters) override {
    check_variables_are_here(trainer_.strategy(), "set_parameters");
    const auto trained = std::as_writable_bytes(trainer_.variables().parameters().values());
    const std::size_t expected =
        trained.size() + std::as_bytes(trainer_.workspace(0).state().values()).size();
    if (parameters.size() != expected)
      throw Error(
          concat({"set_parameters: expected ", expected, " bytes, got ", parameters.size()}));
    const auto untrained = parameters.subspan(trained.size());
    std::copy_n(parameters.begin(), trained.size(), trained.begin());
    trainer_.rank_state().share_parameters();
    for (std::size_t i = 0; i < trainer_.replicas(); ++i)
      std::copy(untrained.begin(), untrained.end(),
                std::as_writable_bytes(trainer_.workspace(i).state().values()).begin());
  }

 protected:
  Trainer<T>& trainer_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
