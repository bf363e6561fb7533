// A short training run to be killed, stopped and started again: survivor BACKUP_DIR
// [name=number]... epochs=4 steps=6 of each epoch batch=32 samples in a global batch freq=0 steps
// between two saves (0: epochs) delete=1 the backup at the end step_ms=0 how long each step takes
// at least warn=0 go on when a save fails preempt=1 save when told to stop rejoin=0 wait for lost
// workers spin_at=-1 update at which a worker loops without end, once (see BACKUP_DIR/../spun)
// spin_on=0 that worker progress_ms=600000 for a worker that lives and keeps others waiting
// timeout_ms=20000 of an operation between workers shared=0 more units, and SGD in shared memory
//                                                              (parameters change places) in place
// of Adam over TCP sharded=0 whether each worker updates a share rounds=0 steps of DiLoCo's rounds
// fits=1, each of an epoch more than the one before
// corrupt=0 after so many updates, worker 1 has a bit that the others have not
// shards=0 a backup of shards, one for each worker
// fail=0 update with an exception verbose=0 of fit The last line is: final: loss=L learning_rate=R
// seen=N parameters_crc32c=HEX
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/lockstep.hpp"
#include "support/four_classes.hpp"

namespace ls = lockstep;

namespace {

template <std::size_t Units>
using Net = ls::Sequential<ls::Input<16>, ls::Dense<Units, ls::ReLU>, ls::Dense<4>>;

/// Halves the learning rate when the loss has not got better for two epochs, which is not worth
/// much, but needs a memory.
struct HalveOnPlateau {
  double best = 1e30;
  std::int64_t waited = 0;
  std::int64_t seen = 0;  // epochs

  void on_epoch_end(ls::Training& training, int, ls::Logs& logs) {
    ++seen;
    const double loss = logs.at("loss");
    waited = loss < 0.98 * best ? 0 : waited + 1;
    if (waited == 0) best = loss;
    if (waited == 2) training.set_learning_rate(training.learning_rate() / 2);
  }
  void save(ls::State& state) const {
    state.put("best", best);
    state.put("waited", waited);
    state.put("seen", seen);
  }
  void restore(const ls::State& state) {
    best = state.get<double>("best");
    waited = state.get<std::int64_t>("waited");
    seen = state.get<std::int64_t>("seen");
  }
};

struct SlowSteps {
  std::chrono::milliseconds least{0};
  int spin_at = -1;
  std::string spun{};  // a file that exists once it is done
  bool told = false;
  void on_train_batch_begin(ls::Training& training, std::int64_t) {
    if (!std::exchange(told, true))
      std::printf("training from update %d\n", static_cast<int>(training.iterations()));
    std::fflush(stdout);
    if (least.count() > 0) std::this_thread::sleep_for(least);
    if (training.iterations() == spin_at && !std::filesystem::exists(spun)) {
      std::ofstream file(spun);
      file.close();
      for (volatile bool spins = true; spins;) continue;
    }
  }
};

/// What goes wrong on one worker.
struct Accident {
  int corrupt = 0;
  int fail = 0;
  void on_train_batch_end(ls::Training& training, std::int64_t, ls::Logs&) const {
    if (fail > 0 && training.iterations() == fail) throw std::runtime_error("an accident");
    if (corrupt == 0 || training.worker_index() != 1 || training.iterations() != corrupt) return;
    auto parameters = training.parameters();
    parameters[2] ^= std::byte{64};
    training.set_parameters(parameters);
  }
};

using Numbers = std::map<std::string, int, std::less<>>;

template <class TestNet, class Policy, class Optimizer>
void train(const std::string& backup_dir, Numbers numbers, const Optimizer& optimizer) {
  ls::MultiWorkerMirroredStrategy<Policy> strategy(
      {.communication_options = {.timeout = std::chrono::milliseconds(numbers["timeout_ms"]),
                                 .progress_timeout =
                                     std::chrono::milliseconds(numbers["progress_ms"])},
       .sharded_updates = numbers["sharded"] != 0});
  const lockstep_test::FourClasses classes;
  ls::Synchronization synchronization;
  if (numbers["rounds"] > 0) synchronization = ls::DiLoCo{.steps = numbers["rounds"]};
  auto model = ls::compile<TestNet>(strategy, {.seed = 3, .synchronization = synchronization},
                                    ls::SparseCategoricalCrossentropy{.from_logits = true},
                                    optimizer, ls::Accuracy{});
  HalveOnPlateau plateau;
  const Accident accident{.corrupt = numbers["corrupt"], .fail = numbers["fail"]};
  SlowSteps slow{.least = std::chrono::milliseconds(numbers["step_ms"]),
                 .spin_at = strategy.worker_index() == numbers["spin_on"] ? numbers["spin_at"] : -1,
                 .spun = backup_dir + "/../spun"};
  ls::BackupAndRestore backup{
      .backup_dir = backup_dir,
      .save_freq = numbers["freq"],
      .delete_checkpoint = numbers["delete"] != 0,
      .save_before_preemption = numbers["preempt"] != 0,
      .on_save_failure = numbers["warn"] != 0 ? ls::OnSaveFailure::warn : ls::OnSaveFailure::fail,
      .on_peer_loss = numbers["rejoin"] != 0 ? ls::OnPeerLoss::rejoin : ls::OnPeerLoss::fail,
      .sharded = numbers["shards"] != 0};
  ls::History history;
  for (int fit = 1; fit <= numbers["fits"]; ++fit)
    history = model.fit(ls::from_tensor_slices(classes.x, classes.y)
                            .shuffle(classes.samples)
                            .repeat()
                            .batch(numbers["batch"]),
                        {.epochs = numbers["epochs"] + fit - 1,
                         .verbose = numbers["verbose"],
                         .steps_per_epoch = numbers["steps"]},
                        plateau, slow, accident, backup);
  if (strategy.is_chief())
    std::printf("final: loss=%.9g learning_rate=%g seen=%d parameters_crc32c=%08x\n",
                history.epoch.empty() ? 0.0 : history["loss"].back(), model.learning_rate(),
                static_cast<int>(plateau.seen), static_cast<unsigned>(model.parameters_crc32c()));
}

int run(int argc, char** argv) {
  Numbers numbers{{"epochs", 4},  {"steps", 6},
                  {"batch", 32},  {"freq", 0},
                  {"delete", 1},  {"step_ms", 0},
                  {"warn", 0},    {"preempt", 1},
                  {"rejoin", 0},  {"timeout_ms", 20'000},
                  {"shared", 0},  {"spin_at", -1},
                  {"spin_on", 0}, {"progress_ms", 600'000},
                  {"corrupt", 0}, {"fail", 0},
                  {"verbose", 0}, {"sharded", 0},
                  {"rounds", 0},  {"fits", 1},
                  {"shards", 0}};
  for (int i = 2; i < argc; ++i) {
    const std::string_view text = argv[i];
    const auto equals = text.find('=');
    std::from_chars(text.data() + equals + 1, text.data() + text.size(),
                    numbers.at(std::string(text.substr(0, equals))));
  }
  std::printf("process %d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  if (numbers["shared"] != 0)
    train<Net<512>, ls::SharedMemory>(argv[1], numbers, ls::SGD{.learning_rate = 0.2});
  else
    train<Net<8>, ls::Ring<ls::Tcp>>(argv[1], numbers, ls::Adam{.learning_rate = 0.01});
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return ls::run(argc, argv, run); }
