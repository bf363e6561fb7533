// The order of what fit exchanges is a part of the protocol: the same on all ranks, whatever takes
// part in a fit.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/strategies/elastic_world.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "lockstep/training/fit.ipp"
#include "support/model_testing.hpp"
#include "support/moving_trainer.hpp"
#include "support/temporary_folder.hpp"
#include "support/worker_threads.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Writes down what is called.
struct RecordedCollective : BoardCollective {
  RecordedCollective(Board& board, int rank) : BoardCollective(board, rank) {}

  template <class T>
  void all_reduce(std::span<T> values, ls::ReduceOp op) {
    calls += op == ls::ReduceOp::max ? "max " : "sum ";
    BoardCollective::all_reduce(values, op);
  }
  template <class T>
  void all_reduce(std::span<double> status, std::span<T> values) {
    calls += "GRADIENTS ";
    BoardCollective::all_reduce(status, values);
    if (!std::exchange(loses_others_, false)) return;
    calls += "LOST ";
    throw ls::CollectiveError({.failed_rank = 1 - rank(), .reason = "closed the connection"});
  }
  void broadcast(std::span<std::byte> bytes, int root) {
    calls += "broadcast ";
    BoardCollective::broadcast(bytes, root);
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    calls += "gather ";
    BoardCollective::all_gather(mine, all);
  }
  void barrier() {
    calls += "barrier ";
    BoardCollective::barrier();
  }

  /// The next reduction of gradients is the last one of this connection.
  void lose_others() { loses_others_ = true; }

  std::string calls;

 private:
  bool loses_others_ = false;
};

/// "a a a b " becomes "a*3 b ".
std::string counted(const std::string& calls) {
  std::istringstream words(calls);
  std::string text, last;
  int times = 0;
  const auto end = [&] {
    if (times > 0) text += times > 1 ? last + "*" + std::to_string(times) + " " : last + " ";
  };
  for (std::string word; words >> word; last = word) {
    if (word == last) {
      ++times;
      continue;
    }
    end();
    times = 1;
  }
  end();
  return text;
}

/// Two workers, of which another one may ask to be taken in.
class RecordedWorld final : public ls::ElasticWorld {
 public:
  [[nodiscard]] bool has_newcomer() const noexcept override { return has_newcomer_; }
  [[nodiscard]] bool is_successor() const noexcept override { return is_successor_; }
  [[nodiscard]] std::string description() const override { return "a world of the test"; }
  [[nodiscard]] EncodeState encode_state() const noexcept override {
    return &ls::encode_checkpoint;
  }
  [[nodiscard]] DecodeState decode_state() const noexcept override {
    return &ls::decode_checkpoint;
  }
  void call() { has_newcomer_ = !is_successor_; }
  void change() {
    has_newcomer_ = false;
    is_successor_ = true;
  }

 private:
  bool has_newcomer_ = false, is_successor_ = false;
};

class RecordedStrategy {
 public:
  struct Replica {
    RecordedCollective recorded;
    RecordedCollective& collective() { return recorded; }
    [[nodiscard]] int local_rank() const { return 0; }
    [[nodiscard]] int local_size() const { return 1; }
    void team_barrier() {}
  };

  RecordedStrategy(Board& board, int rank, bool shares, bool is_elastic)
      : replica_{{board, rank}}, shares_updates_(shares), is_elastic_(is_elastic) {}

  [[nodiscard]] int num_workers() const { return replica_.recorded.size(); }
  [[nodiscard]] int worker_index() const { return replica_.recorded.rank(); }
  [[nodiscard]] bool is_chief() const { return worker_index() == 0; }
  [[nodiscard]] int local_replicas() const { return 1; }
  [[nodiscard]] int num_replicas_in_sync() const { return num_workers(); }
  [[nodiscard]] bool sharded_updates() const { return shares_updates_; }
  [[nodiscard]] const ls::ElasticWorld* elastic_world() const {
    return is_elastic_ ? &world : nullptr;
  }
  void reconnect() {
    calls() += "| connected: ";
    world.change();
  }
  [[nodiscard]] RecordedCollective& recorded() { return replica_.recorded; }
  [[nodiscard]] std::string& calls() { return replica_.recorded.calls; }
  template <class F>
  void run(F&& f) {
    f(replica_);
  }

  RecordedWorld world;

 private:
  Replica replica_;
  const bool shares_updates_, is_elastic_;
};

/// What happens in a fit of two steps an epoch.
enum class Event : std::uint8_t {
  none,
  preemption,       ///< worker 1 is told in the first step to leave
  late_preemption,  ///< in on_epoch_end
  newcomer,         ///< worker 1 hears in the first step that another worker waits
  loss,             ///< both lose each other in the reduction of the second step
  stop,             ///< worker 1 asks for it in on_epoch_end
};

struct Case {
  std::string name, expected;
  ls::SGD optimizer{.learning_rate = 0.1};
  ls::CompileOptions compile{.seed = 1};
  ls::FitOptions fit{};
  bool shares_updates = false;
  bool is_elastic = false;
  bool stops_in_batch = false;  ///< worker 1 has a callback that may
  bool saves = false;           ///< a callback takes the state at the end of the epoch
  std::optional<ls::BackupAndRestore> backup{};  ///< its folder is the test's
  Event event = Event::none;
};

/// What two workers exchange in a fit, with the hooks between.
std::string order(const Case& with) {
  Board board(2);
  const TemporaryFolder folder;
  std::array<std::string, 2> calls;
  std::array<std::thread, 2> workers;
  for (std::size_t rank = 0; rank < 2; ++rank)
    workers.at(rank) = std::thread([&, rank] {
      RecordedStrategy strategy(board, static_cast<int>(rank), with.shares_updates,
                                with.is_elastic);
      auto model = ls::compile<TinyNet>(strategy, with.compile,
                                        ls::SparseCategoricalCrossentropy{.from_logits = true},
                                        with.optimizer);
      strategy.calls().clear();
      const auto note = [&](const char* hook) { strategy.calls() += hook; };
      ls::LambdaCallback hooks;
      hooks.on_train_begin = [&] { note("| train_begin: "); };
      hooks.on_epoch_begin = [&] { note("| epoch_begin: "); };
      hooks.on_epoch_end = [&](ls::Training& training, int, ls::Logs&) {
        note("| epoch_end: ");
        if (rank == 1 && with.event == Event::late_preemption)
          training.request_preemption(ls::ExitCode::terminated);
        if (rank == 1 && with.event == Event::stop) training.stop_training();
      };
      hooks.on_preemption = [&] { note("| preemption: "); };
      hooks.on_train_end = [&] { note("| train_end: "); };
      if (with.event == Event::preemption || with.event == Event::newcomer ||
          with.event == Event::loss)
        hooks.on_train_batch_begin = [&](ls::Training& training, std::int64_t step) {
          if (rank == 1 && with.event == Event::preemption)
            training.request_preemption(ls::ExitCode::terminated);
          if (rank == 1 && with.event == Event::newcomer) strategy.world.call();
          if (step == 1 && with.event == Event::loss && !strategy.world.is_successor())
            strategy.recorded().lose_others();
        };
      if (with.saves)
        hooks.on_epoch_complete = [](ls::Training& training, int) {
          if (training.is_chief()) (void)training.state();
        };
      if (with.stops_in_batch && rank == 1) hooks.on_train_batch_end = [] {};
      ls::FitOptions options = with.fit;
      options.verbose = 0;
      const RowDataset data(TinyData(20), 10);
      try {
        if (with.backup) {
          ls::BackupAndRestore backup = *with.backup;
          backup.backup_dir = folder.path();
          backup.asynchronous = false;
          backup.writer = ls::BackupAndRestore{}.writer;
          model.fit(data, options, hooks, backup);
        } else {
          model.fit(data, options, hooks);
        }
      } catch (const ls::Preempted&) {
        note("| Preempted ");
      }
      calls.at(rank) = strategy.calls();
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(calls[0] == calls[1]);
  return counted(calls[0]);
}

const ls::SGD momentum{.learning_rate = 0.1, .momentum = 0.9};
const ls::SGD windows{.learning_rate = 0.1, .gradient_accumulation_steps = 3};
const ls::SGD momentum_windows{
    .learning_rate = 0.1, .momentum = 0.9, .gradient_accumulation_steps = 3};
const ls::CompileOptions local_sgd{.seed = 1, .synchronization = ls::LocalSGD{.steps = 2}};

// All compare the call, and what callbacks need; then all get the chief's variables.
const std::string compared = "gather*2 max | train_begin: ";
const std::string begun = compared + "gather broadcast*9 | epoch_begin: ";
const std::string windowed = compared + "gather broadcast*10 | epoch_begin: ";
// A loss would take a part of the state along: they look whether one has happened.
const std::string spread = compared + "gather broadcast max sum broadcast*8 | epoch_begin: ";
const std::string spread_windowed =
    compared + "gather broadcast max sum broadcast*9 | epoch_begin: ";
// What callbacks ask for; checksums, as they may have changed the model.
const std::string closed = "| epoch_end: sum gather ";
const std::string ended = "| train_end: sum ";
// In another connection all compile, compare the call again, and take the state that is furthest.
const std::string again =
    "| connected: gather*2 max broadcast*9 gather*2 max gather broadcast*3 | epoch_begin: sum ";
const std::string left = "barrier | Preempted ";

}  // namespace

TEST_CASE("fit: the order of what ranks exchange, for each feature") {
  const std::vector<Case> cases{
      // After the steps: the times of the ranks, and their checksums; then what callbacks ask for.
      {.name = "plain", .expected = begun + "GRADIENTS*2 gather*2 " + closed + ended},
      {.name = "no verification",
       .expected = begun + "GRADIENTS*2 gather | epoch_end: sum " + ended,
       .fit = {.verify_replicas = false}},
      {.name = "validation",
       .expected = begun + "GRADIENTS*2 sum gather*2 | epoch_end: sum gather " + ended,
       .fit = {.validation_data = ls::AnyDataset(RowDataset(TinyData(20), 10))}},
      {.name = "a stop within an epoch",
       .expected = begun + "GRADIENTS sum GRADIENTS sum gather*2 | epoch_end: sum gather " + ended,
       .stops_in_batch = true},
      {.name = "accumulation",
       .expected = windowed + "sum*3 gather*2 " + closed + ended,
       .optimizer = windows},
      {.name = "LocalSGD",
       .expected = spread + "gather GRADIENTS gather*2 " + closed + ended,
       .compile = local_sgd},
      {.name = "LocalSGD with slots",
       .expected = spread + "gather GRADIENTS gather broadcast gather " + closed + ended,
       .optimizer = momentum,
       .compile = local_sgd},
      {.name = "LocalSGD with slots and no verification",
       .expected = spread + "gather GRADIENTS gather broadcast | epoch_end: sum " + ended,
       .optimizer = momentum,
       .compile = local_sgd,
       .fit = {.verify_replicas = false}},
      {.name = "LocalSGD with averages",
       .expected = spread_windowed + "gather GRADIENTS sum gather*2 " + closed + ended,
       .optimizer = {.learning_rate = 0.1, .use_ema = true},
       .compile = local_sgd},
      {.name = "DiLoCo, saved in each step",
       .expected = spread_windowed +
                   "gather GRADIENTS broadcast gather*2 GRADIENTS broadcast gather*3 " + closed +
                   ended,
       .optimizer = momentum,
       .compile = {.seed = 1, .synchronization = ls::DiLoCo{.steps = 1}},
       .backup = ls::BackupAndRestore{.backup_dir = {}, .save_freq = 1}},
      {.name = "sharded updates",
       .expected = spread + "GRADIENTS broadcast*2 GRADIENTS broadcast*2 gather*2 broadcast*2 " +
                   closed + ended,
       .optimizer = momentum,
       .shares_updates = true},
      {.name = "sharded updates, saved",
       .expected = spread + "GRADIENTS broadcast*2 GRADIENTS broadcast*2 gather*2 broadcast*2 " +
                   closed + ended,
       .optimizer = momentum,
       .shares_updates = true,
       .saves = true},
      {.name = "sharded updates, saved by shares",
       .expected = spread +
                   "GRADIENTS broadcast*2 GRADIENTS broadcast*2 gather broadcast*2 gather*7 " +
                   closed + ended,
       .optimizer = momentum,
       .shares_updates = true,
       .backup = ls::BackupAndRestore{.backup_dir = {}, .save_freq = 2, .sharded = true}},
      {.name = "sharded updates with accumulation",
       .expected = spread_windowed + "sum*3 gather*2 broadcast*2 " + closed + ended,
       .optimizer = momentum_windows,
       .shares_updates = true},
      {.name = "a backup in each step",
       .expected = begun + "GRADIENTS gather GRADIENTS gather*3 " + closed + ended,
       .backup = ls::BackupAndRestore{.backup_dir = {}, .save_freq = 1}},
      {.name = "a stop after the first of two epochs",
       .expected = begun + "GRADIENTS*2 gather*2 " + closed + ended,
       .fit = {.epochs = 2},
       .event = Event::stop},
      {.name = "preemption",
       .expected = begun + "GRADIENTS gather | preemption: " + left,
       .event = Event::preemption},
      {.name = "preemption, no verification",
       .expected = begun + "GRADIENTS | preemption: " + left,
       .fit = {.verify_replicas = false},
       .event = Event::preemption},
      {.name = "preemption at the end of an epoch",
       .expected = begun + "GRADIENTS*2 gather*2 | epoch_end: sum gather*2 | preemption: " + left,
       .event = Event::late_preemption},
      {.name = "preemption with accumulation",
       .expected = windowed + "sum gather | preemption: " + left,
       .optimizer = windows,
       .event = Event::preemption},
      {.name = "preemption with LocalSGD",
       .expected = spread + "gather GRADIENTS broadcast gather | preemption: " + left,
       .optimizer = momentum,
       .compile = local_sgd,
       .event = Event::preemption},
      {.name = "preemption with sharded updates",
       .expected = spread + "GRADIENTS broadcast*2 gather broadcast*2 | preemption: " + left,
       .optimizer = momentum,
       .shares_updates = true,
       .event = Event::preemption},
      {.name = "preemption with sharded updates, saved by shares",
       .expected =
           spread + "GRADIENTS broadcast*2 gather broadcast*2 | preemption: gather*5 " + left,
       .optimizer = momentum,
       .shares_updates = true,
       .backup = ls::BackupAndRestore{.backup_dir = {}, .sharded = true},
       .event = Event::preemption},
      {.name = "preemption with sharded updates and accumulation, saved by shares",
       .expected = spread_windowed + "sum gather broadcast*2 | preemption: gather*5 " + left,
       .optimizer = momentum_windows,
       .shares_updates = true,
       .backup = ls::BackupAndRestore{.backup_dir = {}, .sharded = true},
       .event = Event::preemption},
      {.name = "elastic, and nobody comes",
       .expected = begun + "GRADIENTS*2 gather*2 " + closed + ended,
       .is_elastic = true},
      {.name = "elastic",
       .expected = begun + "GRADIENTS barrier " + again + "GRADIENTS gather*2 " + closed + ended,
       .is_elastic = true,
       .event = Event::newcomer},
      {.name = "elastic with a backup",
       .expected = begun + "GRADIENTS barrier " + again + "GRADIENTS gather*2 " + closed + ended,
       .is_elastic = true,
       .backup = ls::BackupAndRestore{},
       .event = Event::newcomer},
      {.name = "elastic with accumulation",
       .expected = windowed + "sum*3 gather*2 " + closed +
                   "| epoch_begin: GRADIENTS barrier | connected: gather*2 max broadcast*10 "
                   "gather*2 max gather broadcast*3 | epoch_begin: sum*3 gather*2 " +
                   closed + "| epoch_begin: sum GRADIENTS gather*2 " + closed + ended,
       .optimizer = windows,
       .fit = {.epochs = 3},
       .is_elastic = true,
       .event = Event::newcomer},
      {.name = "elastic with LocalSGD",
       .expected = spread + "gather GRADIENTS broadcast barrier " + again +
                   "gather broadcast gather " + closed +
                   "| epoch_begin: gather GRADIENTS gather broadcast gather " + closed + ended,
       .optimizer = momentum,
       .compile = local_sgd,
       .fit = {.epochs = 2},
       .is_elastic = true,
       .event = Event::newcomer},
      {.name = "elastic with sharded updates",
       .expected = spread + "GRADIENTS broadcast*4 barrier " + again +
                   "GRADIENTS broadcast*2 gather*2 broadcast*2 " + closed + ended,
       .optimizer = momentum,
       .shares_updates = true,
       .is_elastic = true,
       .event = Event::newcomer},
      {.name = "elastic, a loss",
       .expected = begun + "GRADIENTS*2 LOST " + again + "GRADIENTS gather*2 " + closed + ended,
       .is_elastic = true,
       .event = Event::loss},
      {.name = "rejoin",
       .expected = begun + "GRADIENTS*2 LOST " + again + "GRADIENTS gather*2 " + closed + ended,
       .backup = ls::BackupAndRestore{.backup_dir = {}, .on_peer_loss = ls::OnPeerLoss::rejoin},
       .event = Event::loss},
      {.name = "rejoin with sharded updates",
       .expected = spread + "GRADIENTS broadcast*2 gather broadcast*2 GRADIENTS LOST " + again +
                   "GRADIENTS broadcast*2 gather broadcast*2 gather*2 " + closed + ended,
       .optimizer = momentum,
       .shares_updates = true,
       .backup =
           ls::BackupAndRestore{
               .backup_dir = {}, .save_freq = 1, .on_peer_loss = ls::OnPeerLoss::rejoin},
       .event = Event::loss},
      {.name = "rejoin with accumulation",
       .expected = windowed +
                   "sum GRADIENTS LOST | connected: gather*2 max broadcast*10 gather*2 max gather "
                   "broadcast*2 | epoch_begin: sum gather GRADIENTS gather*3 " +
                   closed + "| epoch_begin: sum GRADIENTS gather*3 " + closed + ended,
       .optimizer = {.learning_rate = 0.1, .gradient_accumulation_steps = 2},
       .fit = {.epochs = 2},
       .backup =
           ls::BackupAndRestore{
               .backup_dir = {}, .save_freq = 1, .on_peer_loss = ls::OnPeerLoss::rejoin},
       .event = Event::loss},
  };
  for (const Case& with : cases) {
    CAPTURE(with.name);
    CHECK(order(with) == with.expected);
  }
}

TEST_CASE("fit: parts are there where something asks for them, in one order") {
  const auto names = [](ls::detail::Trainer<float>& trainer, const ls::FitOptions& options) {
    const ls::AnyDataset data(RowDataset(TinyData(20), 5));
    ls::CallbackList<> callbacks;
    ls::detail::FitState<float> fit(trainer, data, options, callbacks);
    ls::detail::add_parts(fit);
    std::string text;
    for (const auto* part : fit.parts) text += std::string(part->name()) + ", ";
    return text;
  };
  MovingTrainer held(1);
  CHECK(names(held.trainer, {}) == "recovery, whole state, ");
  CHECK(names(held.trainer, {.profile = "trace.json"}) == "recovery, whole state, profile, ");
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<TinyNet>(
      strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true},
      ls::SGD{.learning_rate = 0.1, .gradient_accumulation_steps = 3});
  auto& accumulating = ls::detail::ModelFiles<decltype(model)>::trainer(model);
  CHECK(names(accumulating, {}) == "recovery, accumulation, whole state, ");
  CHECK(names(accumulating, {.profile = "trace.json"}) ==
        "recovery, accumulation, whole state, profile, ");
}
