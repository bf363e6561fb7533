// Training, as fit, evaluate and predict show it to callbacks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/network/layer_names.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/fit_plan.hpp"
#include "lockstep/training/keras_files.hpp"
#include "lockstep/training/model_state.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

template <class T>
class Trainer;
template <class T>
struct FitState;

/// Without a fit (in evaluate and predict) nothing is trained, and a request to stop or to restore
/// means nothing.
template <class T>
class ModelTraining final : public Training {
 public:
  explicit ModelTraining(Trainer<T>& trainer, FitState<T>* fit = nullptr)
      : trainer_(trainer), fit_(fit) {}

  // Requests.

  void stop_training() override {
    if (fit_ != nullptr) fit_->requests.stop();
  }
  void preempt_on_signals() override {
    if (fit_ != nullptr) fit_->requests.preempt_on_signals();
  }
  void request_preemption(ExitCode code) override {
    if (fit_ != nullptr) fit_->requests.preempt(code);
  }
  void verify_after_step() override {
    if (fit_ != nullptr) fit_->requests.verify(fit_->options.verify_replicas || fit_->must_meet());
  }
  [[nodiscard]] bool is_verified() const override {
    return fit_ == nullptr || fit_->is_whole || !fit_->must_meet();
  }

  // Figures.

  [[nodiscard]] double learning_rate() const override {
    return trainer_.variables().learning_rate();
  }
  void set_learning_rate(double learning_rate) override {
    check_learning_rate(learning_rate, trainer_.variables().has_schedule());
    trainer_.rank_state().set_learning_rate(learning_rate);
  }
  [[nodiscard]] std::int64_t iterations() const override { return trainer_.variables().iterations; }
  [[nodiscard]] std::int64_t steps_waiting() const override {
    return fit_ == nullptr ? 0 : fit_->window.waiting;
  }
  [[nodiscard]] std::int64_t steps_to_update() const override {
    if (fit_ == nullptr) return 1;
    return std::max<std::int64_t>(
        1, trainer_.variables().accumulation_steps() - fit_->window.accumulated);
  }
  [[nodiscard]] bool has_averages() const override { return trainer_.variables().has_averages(); }
  void swap_averages() override { trainer_.variables().swap_averages(); }
  [[nodiscard]] bool shows_averages() const override {
    return trainer_.variables().shows_averages();
  }
  [[nodiscard]] bool is_chief() const override { return trainer_.strategy().is_chief(); }
  [[nodiscard]] int worker_index() const override { return trainer_.strategy().worker_index(); }
  [[nodiscard]] int num_workers() const override { return trainer_.strategy().num_workers(); }
  [[nodiscard]] std::span<const RankTime> rank_times() const override {
    return fit_ == nullptr ? std::span<const RankTime>() : fit_->times;
  }
  [[nodiscard]] bool has_validation() const override {
    if (fit_ == nullptr || !fit_->options.validation_data) return false;
    for (int epoch = fit_->options.initial_epoch; epoch < fit_->options.epochs; ++epoch)
      if (fit_->options.validation_freq.due(epoch)) return true;
    return false;
  }

  // The model.

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
    return fit_ == nullptr ? save_state(trainer_, std::move(reused))
                           : fit_->state(std::move(reused));
  }
  [[nodiscard]] StateShare share(StateShare reused = {}) const override {
    return fit_ == nullptr ? share_of_state(trainer_, std::move(reused))
                           : fit_->share(std::move(reused));
  }
  [[nodiscard]] std::vector<std::string> exchange(const std::string& mine) override {
    return exchange_texts(trainer_.strategy(), mine);
  }
  [[nodiscard]] bool has_shares() const override {
    return !is_elastic() && !trainer_.strategy().has_parameter_servers();
  }
  [[nodiscard]] std::uint64_t state_bytes() const override { return trainer_.state_bytes(); }

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
    trainer_.check_variables_are_here("set_parameters");
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
    if (fit_ != nullptr) fit_->has_set_parameters = true;
  }

  // From what fit goes on.

  void restore(std::vector<std::byte> saved, DecodeState decode, bool allow_changes) override {
    if (fit_ != nullptr) fit_->recovery.restore(std::move(saved), decode, allow_changes);
  }
  void read_shares_with(ReadShares read) override {
    if (fit_ != nullptr) fit_->recovery.read_shares_with(read);
  }
  void cannot_restore(const std::exception_ptr& reason) override {
    if (!takes_over()) std::rethrow_exception(reason);
    fit_->recovery.cannot_restore(reason);
  }
  [[nodiscard]] bool restored_beyond_the_end() const override {
    return fit_ != nullptr && fit_->saved_place.epoch > fit_->options.epochs;
  }
  void rejoin_on_peer_loss(EncodeState encode, DecodeState decode) override {
    if (fit_ != nullptr) fit_->recovery.survive_losses(encode, decode);
  }
  [[nodiscard]] bool is_elastic() const override {
    return fit_ != nullptr && trainer_.strategy().elastic_world() != nullptr;
  }
  [[nodiscard]] bool takes_over() const override {
    return is_elastic() && trainer_.strategy().elastic_world()->is_successor();
  }
  void backup_for_rejoin(const ReadBackup& read) override {
    if (fit_ != nullptr) fit_->recovery.read_backup_with(read);
  }

 private:
  Trainer<T>& trainer_;
  FitState<T>* const fit_;
};

}}}  // namespace lockstep::detail
