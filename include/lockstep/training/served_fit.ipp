#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/parameter_server/numbers.hpp"
#include "lockstep/parameter_server/shard_keeper.hpp"
#include "lockstep/step/shard.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/updater.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/preemption_signals.hpp"
#include "lockstep/training/served_fit.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline void encode_place(const TrainingPosition& place, std::vector<std::byte>& bytes) {
  const auto numbers =
      pack_numbers(place.epoch, place.step, place.data_iteration, place.data_position, place.batch);
  const auto sums = std::as_bytes(std::span(place.running));
  bytes.resize(numbers.size() + sums.size());
  std::copy(numbers.begin(), numbers.end(), bytes.begin());
  std::copy(sums.begin(), sums.end(), bytes.begin() + numbers.size());
}

inline TrainingPosition decode_place(std::span<const std::byte> bytes, std::size_t metric_state) {
  const std::size_t sums = StatusBlock(metric_state).saved().size_bytes();
  std::array<std::byte, 40> numbers{};
  if (bytes.size() != numbers.size() && bytes.size() != numbers.size() + sums)
    throw Error(
        "fit: the parameter servers keep a place in the training that is of another program");
  std::copy_n(bytes.begin(), numbers.size(), numbers.begin());
  TrainingPosition place;
  unpack_numbers(numbers, place.epoch, place.step, place.data_iteration, place.data_position,
                 place.batch);
  place.running.resize((bytes.size() - numbers.size()) / sizeof(double));
  if (!place.running.empty())
    std::memcpy(place.running.data(), bytes.data() + numbers.size(), sums);
  return place;
}

template <class T>
void pull_from_servers(Trainer<T>& trainer, ParameterServers& servers) {
  const auto count = static_cast<std::size_t>(servers.count());
  std::vector<std::byte> state;
  for (std::size_t i = count; i-- > 0;) {  // the counters and untrained variables are server 0's
    const ShardRange range = shard_range(trainer.variables(), i, count);
    state.resize(shard_bytes(trainer.variables(), trainer.workspace(0), range));
    servers.pull(i, state);
    load_shard(trainer.variables(), trainer.workspace(0), range, state);
  }
  servers.is_current = true;
}

template <class T>
std::optional<TrainingPosition> join_servers(Trainer<T>& trainer, ParameterServers& servers,
                                             const TrainingPosition& mine, std::string_view given) {
  std::string signature = trainer.signature();
  signature.append(1, '\0').append(given);
  const PsBegun begun = servers.begin(++servers.fits, signature);
  if (begun.gives_state) {
    const auto count = static_cast<std::size_t>(servers.count());
    std::vector<std::byte> place, state;
    encode_place(mine, place);
    for (std::size_t i = 0; i < count; ++i) {
      const ShardRange range = shard_range(trainer.variables(), i, count);
      state.resize(shard_bytes(trainer.variables(), trainer.workspace(0), range));
      save_shard(trainer.variables(), trainer.workspace(0), range, state);
      servers.put(i, place, state);
    }
    servers.is_in_fit = true;
    return std::nullopt;
  }
  pull_from_servers(trainer, servers);
  servers.is_in_fit = !begun.is_over;
  const std::size_t metric_state = trainer.program().layout().metric_state;
  if (begun.is_over) {
    TrainingPosition ended = mine;
    ended.step = 0;
    ended.set_ended(metric_state);
    return ended;
  }
  if (begun.place.empty()) return std::nullopt;
  return decode_place(begun.place, metric_state);
}

template <class T>
void leave_servers(Trainer<T>& trainer, ParameterServers& servers) {
  if (!servers.is_in_fit) return;
  servers.finish();
  // What the servers do not know: a rate that a callback has set since the last step, and how many
  // passes over the data there were.
  Variables<T>& variables = trainer.variables();
  const double learning_rate = variables.learning_rate();
  const std::int64_t next_pass = variables.next_pass;
  pull_from_servers(trainer, servers);
  if (!variables.has_schedule()) variables.set_learning_rate(learning_rate);
  variables.next_pass = next_pass;
  servers.is_in_fit = false;
}

inline void abandon_servers(ParameterServers& servers) noexcept {
  servers.is_in_fit = false;
  servers.abandon();
}

// --- a server ------------------------------------------------------------------------------------

/// The shard of a model's variables.
template <class T>
class TrainerShard final : public ShardKeeper {
 public:
  TrainerShard(Trainer<T>& trainer, const ParameterServers& servers,
               const PreemptionSignals& signals)
      : trainer_(trainer),
        signals_(signals),
        range_(shard_range(trainer.variables(), static_cast<std::size_t>(servers.server()),
                           static_cast<std::size_t>(servers.count()))),
        status_size_(trainer.workspace(0).pack_status().size()) {}

  [[nodiscard]] std::optional<std::string> difference(std::string_view signature) const override {
    const std::string mine = trainer_.signature();
    const auto lines = first_difference(signature, mine);
    if (!lines) return std::nullopt;
    return concat({"this worker has '", printable(lines->first, 500), "', the server has '",
                   printable(lines->second, 500),
                   "': start the same program with the same options in all processes"});
  }
  [[nodiscard]] std::optional<std::string> fit_difference(std::string_view given,
                                                          std::string_view first) const override {
    const auto lines = first_difference(given, first);
    if (!lines) return std::nullopt;
    return concat({"fit: this worker has '", printable(lines->first, 500), "', another one has '",
                   printable(lines->second, 500),
                   "': start the same program with the same options and data in all processes"});
  }
  [[nodiscard]] DataType type() const override { return data_type_of<T>; }
  [[nodiscard]] std::size_t begin() const override { return range_.begin; }
  [[nodiscard]] std::span<std::byte> parameters() override {
    return std::as_writable_bytes(values());
  }
  [[nodiscard]] std::size_t status_size() const override { return status_size_; }

  void apply(const Gradients& gradients) override {
    Variables<T>& variables = trainer_.variables();
    const double samples = gradients.status[StatusBlock::samples];
    const UpdateStep step{.iteration = variables.iterations + 1,
                          .stop_on_non_finite = gradients.stop_on_non_finite};
    const bool is_undone = step.stop_on_non_finite && gradients.status[StatusBlock::non_finite] > 0;
    if (samples > 0) {
      if (!std::isnan(gradients.learning_rate))
        variables.set_learning_rate(gradients.learning_rate);
      const bool makes_update = step.makes_update(gradients.status);
      const std::span<const T> values_of_gradients(
          reinterpret_cast<const T*>(gradients.values.data()), range_.size);
      if (makes_update)
        variables.update(values(), values_of_gradients, range_.begin, step.rows(gradients.status),
                         step.iteration);
      variables.complete_update(step.iteration, makes_update);
    }
    each_untrained(trainer_.program(), trainer_.workspace(0).state(), gradients.status,
                   [&](T& element, double& number) {
                     const bool changes = samples > 0 && !is_undone;
                     if (gradients.in_round) {
                       if (changes) element = static_cast<T>(number / samples);
                     } else {
                       if (changes) element = static_cast<T>(static_cast<double>(element) + number);
                       number = static_cast<double>(element);
                     }
                   });
  }

  [[nodiscard]] std::size_t state_bytes() const override {
    return shard_bytes(trainer_.variables(), trainer_.workspace(0), range_);
  }
  void save(std::span<std::byte> state) const override {
    save_shard(trainer_.variables(), trainer_.workspace(0), range_, state);
  }
  void load(std::span<const std::byte> state) override {
    load_shard(trainer_.variables(), trainer_.workspace(0), range_, state);
  }

  [[nodiscard]] TrainingState backup(TrainingState reused) const override {
    return detail::save_state(trainer_, std::move(reused));
  }
  void restore(const TrainingState& backup) override { detail::restore_state(trainer_, backup); }
  [[nodiscard]] std::uint64_t backup_bytes() const override {
    return detail::state_bytes(trainer_);
  }
  [[nodiscard]] ExitCode told_to_stop() const noexcept override { return signals_.received(); }

 private:
  [[nodiscard]] std::span<T> values() const {
    return trainer_.variables().parameters().values().subspan(range_.begin, range_.size);
  }

  Trainer<T>& trainer_;
  const PreemptionSignals& signals_;
  const ShardRange range_;
  const std::size_t status_size_;
};

template <class T>
void serve_fits(Trainer<T>& trainer, ParameterServers& servers) {
  PreemptionSignals signals;
  TrainerShard<T> shard(trainer, servers, signals);
  log_line(concat({"parameter server ", servers.server(), " of ", servers.count(), " serves ",
                   servers.workers(), " workers"}));
  try {
    servers.serve(shard);
  } catch (const Preempted&) {
    signals.answered();
    throw;
  }
  signals.answered();  // it ends in any case
  throw Served(concat({"parameter server ", servers.server(), ": all workers have finished"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
