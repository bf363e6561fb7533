// Training with parameter servers: what fit is on a worker, and on a server.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/parameter_servers.hpp"
#include "lockstep/extra/parameter_server/shard.hpp"
#include "lockstep/extra/parameter_server/shard_keeper.hpp"
#include "lockstep/step/status_block.hpp"
#include "lockstep/step/updater.hpp"
#include "lockstep/training/agreement.hpp"
#include "lockstep/training/fit.hpp"
#include "lockstep/training/fit_requests.hpp"
#include "lockstep/training/model_state.hpp"
#include "lockstep/training/trainer.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

// --- the updates of a worker ---------------------------------------------------------------------

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
    servers_.client().step(parts_.variables.learning_rate(), step_.stop_on_non_finite,
                           servers_.next_place, packed, exchanges_);
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

// --- places, as the servers keep one for each rank -----------------------------------------------

inline void encode_place(const TrainingPosition& place, std::vector<std::byte>& bytes) {
  const auto numbers =
      pack_numbers(place.epoch, place.step, place.data_iteration, place.data_position, place.batch);
  const auto sums = std::as_bytes(std::span(place.running));
  bytes.resize(numbers.size() + sums.size());
  std::copy(numbers.begin(), numbers.end(), bytes.begin());
  std::copy(sums.begin(), sums.end(), bytes.begin() + numbers.size());
}

/// Throws Error when the bytes are those of another program.
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
    const std::string mine = trainer_.signature_and_policy();
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
  [[nodiscard]] std::uint64_t backup_bytes() const override { return trainer_.state_bytes(); }
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

// --- a worker ------------------------------------------------------------------------------------

template <class T>
class ServedVariables final : public RemoteVariables<T> {
 public:
  ServedVariables(Trainer<T>& trainer, ParameterServers& servers)
      : trainer_(trainer), servers_(servers) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "parameter servers"; }
  [[nodiscard]] bool are_in_fit() const noexcept override { return servers_.is_in_fit; }
  [[nodiscard]] bool are_here() const noexcept override { return servers_.is_current; }

  void serve() override {
    has_begun_ = false;
    if (!servers_.is_server()) return;
    PreemptionSignals signals;
    TrainerShard<T> shard(trainer_, servers_, signals);
    log_line(concat({"parameter server ", servers_.server(), " of ", servers_.count(), " serves ",
                     servers_.workers(), " workers"}));
    try {
      servers_.serve(shard);
    } catch (const Preempted&) {
      signals.answered();
      throw;
    }
    signals.answered();  // it ends in any case
    throw Served(concat({"parameter server ", servers_.server(), ": all workers have finished"}));
  }

  void pull() override {
    each_shard([&](std::size_t i, const ShardRange& range, std::vector<std::byte>& state) {
      servers_.client().pull(i, state);
      load_shard(trainer_.variables(), trainer_.workspace(0), range, state);
    });
    servers_.is_current = true;
  }

  /// The chief's variables go to the servers, unless these go on with what they have. Then this
  /// worker takes the servers', and may go on at another place.
  void begin(FitRank<T>& rank) override {
    const PsBegun begun = servers_.client().begin(
        ++servers_.fits, concat({trainer_.signature_and_policy(), std::string_view("\0", 1),
                                 rank.fit.plan.signature}));
    servers_.is_in_fit = !begun.is_over;
    has_begun_ = true;
    if (begun.gives_state) {
      std::vector<std::byte> place;
      encode_place(rank.at, place);
      const auto count = static_cast<std::size_t>(servers_.count());
      std::vector<std::byte> state;
      for (std::size_t i = 0; i < count; ++i) {
        const ShardRange range = shard_range(trainer_.variables(), i, count);
        state.resize(shard_bytes(trainer_.variables(), trainer_.workspace(0), range));
        save_shard(trainer_.variables(), trainer_.workspace(0), range, state);
        servers_.client().put(i, place, state);
      }
      return;
    }
    pull();
    if (begun.is_over) {
      rank.at.step = 0;
      rank.at.set_ended(rank.fit.metric_state());
    } else if (!begun.place.empty()) {
      rank.at = decode_place(begun.place, rank.fit.metric_state());
    }
    rank.fit.saved_place = rank.at;
    if (rank.at.epoch > rank.fit.options.epochs)
      throw ConfigurationError(
          concat({"fit: the parameter servers go on with a training that is in epoch ",
                  rank.at.epoch + 1, ", and .epochs is ", rank.fit.options.epochs,
                  ": give more epochs, or start the servers with another backup_dir. Their backup "
                  "is kept"}));
  }

  /// They keep where this worker goes on after its next step. (Of the epoch's sums, those of that
  /// step are left out: they are not known yet.)
  void before_step(FitRank<T>& rank) override {
    next_.epoch = rank.at.epoch;
    next_.step = rank.at.step + 1;
    next_.data_iteration = rank.at.data_iteration;
    next_.data_position = rank.at.data_position + 1;
    next_.batch = rank.at.batch;
    next_.keep(rank.running);
    encode_place(next_, servers_.next_place);
  }

  /// This worker has made its steps: it waits for the others, and takes the variables of all.
  /// (Unless it came when the fit was over.)
  void leave(FitRank<T>&, const FitEnd& end) override {
    was_served_ = servers_.is_in_fit && !end.leaves();
    if (!was_served_) return;
    servers_.client().finish();
    keeping_own([&] { pull(); });
    servers_.is_in_fit = false;
  }

  /// After on_train_end: all get the chief's variables, if its callbacks have set them or this
  /// worker's have.
  void left(FitRank<T>& rank, const FitEnd&) override {
    if (!was_served_) return;
    const bool has_set = rank.fit.has_set_parameters || trainer_.variables().has_averages();
    const bool gives = rank.fit.is_chief() && has_set;
    keeping_own([&] {
      each_shard([&](std::size_t i, const ShardRange& range, std::vector<std::byte>& state) {
        if (gives) save_shard(trainer_.variables(), trainer_.workspace(0), range, state);
        if (servers_.client().settle(i, has_set, gives ? state : std::span<const std::byte>(),
                                     state))
          load_shard(trainer_.variables(), trainer_.workspace(0), range, state);
      });
    });
  }

  [[nodiscard]] std::unique_ptr<Updater<T>> updater(const Parts<T>& parts) override {
    return std::make_unique<ParameterServerUpdater<T>>(parts, servers_);
  }

  /// An exception has ended the fit of this worker, and the others go on without it; but before the
  /// chief has begun the fit they cannot, and where starting it again does not help, they end, too.
  void abandon() noexcept override {
    servers_.is_in_fit = false;
    if (servers_.is_server()) return;
    if (!has_begun_ && trainer_.strategy().is_chief()) {
      try {
        throw;
      } catch (const ConfigurationError& error) {
        servers_.client().cannot_begin(error.what());
      } catch (const DataError& error) {
        servers_.client().cannot_begin(error.what());
      } catch (...) {
      }
    }
    servers_.client().hang_up();
  }

 private:
  /// The last one first: counters and untrained variables are server 0's.
  template <class F>
  void each_shard(const F& f) {
    const auto count = static_cast<std::size_t>(servers_.count());
    std::vector<std::byte> state;
    for (std::size_t i = count; i-- > 0;) {
      const ShardRange range = shard_range(trainer_.variables(), i, count);
      state.resize(shard_bytes(trainer_.variables(), trainer_.workspace(0), range));
      f(i, range, state);
    }
  }

  /// What the servers do not know stays: a rate that a callback has set since the last step, and
  /// how many passes over the data there were.
  template <class F>
  void keeping_own(const F& take) {
    Variables<T>& variables = trainer_.variables();
    const double learning_rate = variables.learning_rate();
    const std::int64_t next_pass = variables.next_pass;
    take();
    if (!variables.has_schedule()) variables.set_learning_rate(learning_rate);
    variables.next_pass = next_pass;
  }

  Trainer<T>& trainer_;
  ParameterServers& servers_;
  TrainingPosition next_{};
  bool was_served_ = false;
  bool has_begun_ = false;  // this fit, with the servers
};

}}}  // namespace lockstep::detail
