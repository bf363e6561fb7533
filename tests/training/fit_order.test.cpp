// The order of what fit exchanges is a part of the protocol: the same on all ranks, whatever takes
// part in a fit.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <sstream>
#include <string>
#include <thread>

#include "lockstep/callbacks/callback_list.hpp"
#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/synchronization.hpp"
#include "lockstep/training/fit.ipp"
#include "support/model_testing.hpp"
#include "support/moving_trainer.hpp"
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

  std::string calls;
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

class RecordedStrategy {
 public:
  struct Replica {
    RecordedCollective recorded;
    RecordedCollective& collective() { return recorded; }
    [[nodiscard]] int local_rank() const { return 0; }
    [[nodiscard]] int local_size() const { return 1; }
    void team_barrier() {}
  };

  RecordedStrategy(Board& board, int rank, bool shares)
      : replica_{{board, rank}}, shares_updates_(shares) {}

  [[nodiscard]] int num_workers() const { return replica_.recorded.size(); }
  [[nodiscard]] int worker_index() const { return replica_.recorded.rank(); }
  [[nodiscard]] bool is_chief() const { return worker_index() == 0; }
  [[nodiscard]] int local_replicas() const { return 1; }
  [[nodiscard]] int num_replicas_in_sync() const { return num_workers(); }
  [[nodiscard]] bool sharded_updates() const { return shares_updates_; }
  [[nodiscard]] std::string& calls() { return replica_.recorded.calls; }
  template <class F>
  void run(F&& f) {
    f(replica_);
  }

 private:
  Replica replica_;
  const bool shares_updates_;
};

struct Case {
  ls::SGD optimizer{.learning_rate = 0.1};
  ls::CompileOptions compile{.seed = 1};
  ls::FitOptions fit{};
  bool shares_updates = false;
  bool stops_in_batch = false;  ///< worker 1 has a callback that may
  bool saves = false;           ///< a callback takes the state at the end of the epoch
};

/// What two workers exchange in a fit of an epoch of two steps, with the hooks between.
std::string order(Case with) {
  Board board(2);
  std::array<std::string, 2> calls;
  std::array<std::thread, 2> workers;
  for (std::size_t rank = 0; rank < 2; ++rank)
    workers.at(rank) = std::thread([&, rank] {
      RecordedStrategy strategy(board, static_cast<int>(rank), with.shares_updates);
      auto model = ls::compile<TinyNet>(strategy, with.compile,
                                        ls::SparseCategoricalCrossentropy{.from_logits = true},
                                        with.optimizer);
      strategy.calls().clear();
      const auto note = [&](const char* hook) { strategy.calls() += hook; };
      ls::LambdaCallback hooks;
      hooks.on_train_begin = [&] { note("| train_begin: "); };
      hooks.on_epoch_begin = [&] { note("| epoch_begin: "); };
      hooks.on_epoch_end = [&] { note("| epoch_end: "); };
      hooks.on_train_end = [&] { note("| train_end: "); };
      ls::FitOptions options = with.fit;
      options.verbose = 0;
      const RowDataset data(TinyData(20), 10);
      if (with.saves)
        hooks.on_epoch_complete = [](ls::Training& training, int) {
          if (training.is_chief()) (void)training.state();
        };
      if (with.stops_in_batch && rank == 1) hooks.on_train_batch_end = [] {};
      model.fit(data, options, hooks);
      calls.at(rank) = strategy.calls();
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(calls[0] == calls[1]);
  return counted(calls[0]);
}

}  // namespace

TEST_CASE("fit: the order of what ranks exchange, for each feature") {
  // All compare the call, and what callbacks need; then all get the chief's variables.
  const std::string compared = "gather*2 max | train_begin: ";
  const std::string begun = compared + "gather broadcast*9 | epoch_begin: ";
  const std::string ended = "| train_end: sum ";
  // After the steps: the times of the ranks, and their checksums; then what callbacks ask for.
  CHECK(order({}) == begun + "GRADIENTS*2 gather*2 | epoch_end: sum gather " + ended);
  CHECK(order({.fit = {.verify_replicas = false}}) ==
        begun + "GRADIENTS*2 gather | epoch_end: sum " + ended);
  CHECK(order({.fit = {.validation_data = ls::AnyDataset(RowDataset(TinyData(20), 10))}}) ==
        begun + "GRADIENTS*2 sum gather*2 | epoch_end: sum gather " + ended);
  CHECK(order({.stops_in_batch = true}) ==
        begun + "GRADIENTS sum GRADIENTS sum gather*2 | epoch_end: sum gather " + ended);
  // The window of three steps is cut off: their sums are carried.
  CHECK(order({.optimizer = {.learning_rate = 0.1, .gradient_accumulation_steps = 3}}) ==
        compared + "gather broadcast*10 | epoch_begin: sum*3 gather*2 | epoch_end: sum gather " +
            ended);
  const std::string spread = compared + "gather broadcast max sum broadcast*8 | epoch_begin: ";
  CHECK(order({.compile = {.seed = 1, .synchronization = ls::LocalSGD{.steps = 2}}}) ==
        spread + "gather GRADIENTS gather*2 | epoch_end: sum gather " + ended);
  // Each rank has slots of its own, which go to the chief.
  CHECK(order({.optimizer = {.learning_rate = 0.1, .momentum = 0.9},
               .compile = {.seed = 1, .synchronization = ls::LocalSGD{.steps = 2}}}) ==
        spread + "gather GRADIENTS gather broadcast gather | epoch_end: sum gather " + ended);
  CHECK(order({.optimizer = {.learning_rate = 0.1, .momentum = 0.9},
               .shares_updates = true,
               .saves = true}) ==
        spread +
            "GRADIENTS broadcast*2 GRADIENTS broadcast*2 gather*2 broadcast*2 | epoch_end: "
            "sum gather " +
            ended);
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
