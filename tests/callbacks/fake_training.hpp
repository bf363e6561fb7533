// A Training without a model, for tests of single callbacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep_test {

struct FakeTraining : lockstep::Training {
  bool stopped = false;
  bool on_signals = false;
  lockstep::ExitCode preempted = lockstep::ExitCode::success;
  double rate = 0.1;
  bool has_schedule = false;
  std::int64_t updates = 0;
  bool chief = true;
  bool elastic = false, follows_another_chief = false;
  std::vector<lockstep::RankTime> times;
  lockstep::ModelText text;
  lockstep::TrainingState snapshot;
  int restore_calls = 0;
  std::vector<std::byte> restored;
  std::string unreadable;
  lockstep::ReadBackup read_backup;
  lockstep::EncodeState encode = nullptr;
  lockstep::DecodeState decode = nullptr;
  std::vector<std::byte> weights;
  bool verify_asked = false;
  bool verified = true;

  void stop_training() override { stopped = true; }
  void preempt_on_signals() override { on_signals = true; }
  void request_preemption(lockstep::ExitCode code) override { preempted = code; }
  [[nodiscard]] double learning_rate() const override { return rate; }
  void set_learning_rate(double learning_rate) override {
    if (has_schedule)
      throw lockstep::ConfigurationError("set_learning_rate: the optimizer has a schedule");
    rate = learning_rate;
  }
  [[nodiscard]] std::int64_t iterations() const override { return updates; }
  [[nodiscard]] bool is_chief() const override { return chief; }
  [[nodiscard]] bool is_elastic() const override { return elastic; }
  [[nodiscard]] bool takes_over() const override { return follows_another_chief; }
  [[nodiscard]] int worker_index() const override { return chief ? 0 : 1; }
  [[nodiscard]] int num_workers() const override { return 2; }
  [[nodiscard]] std::span<const lockstep::RankTime> rank_times() const override { return times; }
  [[nodiscard]] lockstep::ModelText model_text() const override { return text; }
  [[nodiscard]] lockstep::TrainingState state(lockstep::TrainingState = {}) const override {
    return snapshot;
  }
  [[nodiscard]] std::uint64_t state_bytes() const override { return 0; }
  void verify_after_step() override { verify_asked = true; }
  [[nodiscard]] bool is_verified() const override { return verified; }
  void restore(std::vector<std::byte> saved, lockstep::DecodeState decode_state, bool) override {
    ++restore_calls;
    restored = std::move(saved);
    decode = decode_state;
  }
  void cannot_restore(const std::exception_ptr& reason) override {
    if (!follows_another_chief) std::rethrow_exception(reason);
    try {
      std::rethrow_exception(reason);
    } catch (const lockstep::DataError& error) {
      unreadable = error.what();
    }
  }
  void backup_for_rejoin(const lockstep::ReadBackup& read) override { read_backup = read; }
  void rejoin_on_peer_loss(lockstep::EncodeState encode_state,
                           lockstep::DecodeState decode_state) override {
    encode = encode_state;
    decode = decode_state;
  }
  [[nodiscard]] std::vector<std::byte> parameters() const override { return weights; }
  void set_parameters(std::span<const std::byte> parameters) override {
    weights.assign(parameters.begin(), parameters.end());
  }
};

}  // namespace lockstep_test
