// A training run whose workers come and go: elastic [name=number]...
//   elastic=1 or 0       0: a fixed number of workers
//   min=1 wait_ms=2000   of ElasticOptions
//   epochs=3 steps=20    of each epoch
//   batch=24             samples in a global batch
//   replicas=1           of each worker
//   auto=0               Auto instead of Ring<Tcp>
//   shared=0             SharedMemory instead of Ring<Tcp>
//   step_ms=0            how long each step takes at least
//   timeout_ms=20000     of an operation
//   inner=0              steps of another model's fit at the beginning of each epoch
//   linger_ms=0          at the end
//   follows=0            GlobalBatch::follows_world
//   sharded=0            sharded_updates
//   rounds=0             steps of a round, of LocalSGD
//   diloco=0             DiLoCo instead
//   leave=0              asks to be preempted in the step after which so many updates are made
//   read_ms=0            before the model is compiled
//   late_ms=0            after that, before fit
//   fits=1               of one model
//   folds=1              models, one after the other
//   freq=0               steps from one save to the next; 0: an epoch
//   by_hand=24x13,16x47  alone: batches of 24 samples in 13 steps, then of 16 in 47, outside of fit
// In the environment, ELASTIC_BACKUP_DIR: where BackupAndRestore saves. The last
// line of every worker is: final: updates=N loss=L sum=S squares=Q parameters_crc32c=HEX
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/extra/elastic.hpp"
#include "lockstep/lockstep.hpp"
#include "support/four_classes.hpp"

namespace ls = lockstep;

namespace {

using Net = ls::Sequential<ls::Input<16>, ls::Dense<8, ls::ReLU>, ls::Dense<4>>;
using Numbers = std::map<std::string, int, std::less<>>;
using Data = lockstep_test::FourClasses;

/// So many steps with batches of so many samples.
struct Stretch {
  int batch = 0, steps = 0;
};

struct SlowSteps {
  std::chrono::milliseconds least{0};
  bool told = false;
  int leave = 0;
  void on_train_batch_begin(ls::Training& training, std::int64_t) {
    if (leave > 0 && training.iterations() + 1 == leave)
      training.request_preemption(ls::ExitCode::terminated);
    if (!std::exchange(told, true))
      std::printf("training from update %d\n", static_cast<int>(training.iterations()));
    if (training.iterations() % 10 == 0)
      std::printf("update %d\n", static_cast<int>(training.iterations()));
    std::fflush(stdout);
    if (least.count() > 0) std::this_thread::sleep_for(least);
  }
};

/// Another model's fit within the first one's, with the same workers.
struct InnerFit {
  std::function<void()> fit;
  void on_epoch_begin(ls::Training&, int) const {
    if (fit) fit();
  }
};

auto samples_of(const Data& classes) {
  return ls::from_tensor_slices(classes.x, classes.y).shuffle(Data::samples).repeat();
}

template <class Strategy>
auto compiled(Strategy& strategy, const ls::Synchronization& synchronization = {}) {
  return ls::compile<Net>(strategy, {.seed = 3, .synchronization = synchronization},
                          ls::SparseCategoricalCrossentropy{.from_logits = true},
                          ls::SGD{.learning_rate = 0.05, .momentum = 0.9}, ls::Accuracy{});
}

template <class Model>
void say_final(const Model& model, double loss) {
  double sum = 0, squares = 0;
  for (const auto& each : model.get_weights())
    for (const float value : each.values) {
      sum += value;
      squares += value * value;
    }
  std::printf("final: updates=%d loss=%.9g sum=%.9g squares=%.9g parameters_crc32c=%08x\n",
              static_cast<int>(model.iterations()), loss, sum, squares,
              static_cast<unsigned>(model.parameters_crc32c()));
  std::fflush(stdout);
}

/// The figures of `steps` at the end are the loss.
void train_by_hand(const std::vector<Stretch>& stretches, int steps) {
  const Data classes;
  ls::OneDeviceStrategy strategy;
  auto model = compiled(strategy);
  ls::AnyDataset order = samples_of(classes).batch(1);
  order.begin({.seed = 3, .number = 0});
  std::vector<std::pair<double, int>> losses;
  for (const auto& [batch, times] : stretches)
    for (int step = 0; step < times; ++step) {
      decltype(classes.x) x(batch, 16);
      std::vector<std::int32_t> y;
      for (int i = 0; i < batch; ++i) {
        (void)order.next();
        const std::int64_t sample = order.sample_indices()[0];
        x.row(i) = classes.x.row(sample);
        y.push_back(classes.y[static_cast<std::size_t>(sample)]);
      }
      losses.emplace_back(model.train_on_batch(x, y).at("loss"), batch);
    }
  double sum = 0, count = 0;
  for (auto each = losses.end() - steps; each != losses.end(); ++each) {
    sum += each->first * each->second;
    count += each->second;
  }
  say_final(model, sum / count);
}

template <class Policy>
void train(Numbers numbers) {
  std::optional<ls::ElasticOptions> elastic;
  if (numbers["elastic"] != 0)
    elastic =
        ls::ElasticOptions{.min_workers = numbers["min"],
                           .wait = std::chrono::milliseconds(numbers["wait_ms"]),
                           .global_batch = numbers["follows"] != 0 ? ls::GlobalBatch::follows_world
                                                                   : ls::GlobalBatch::fixed};
  ls::MultiWorkerMirroredStrategy<Policy> strategy(
      {.replicas = numbers["replicas"],
       .communication_options = {.timeout = std::chrono::milliseconds(numbers["timeout_ms"]),
                                 .startup_timeout = std::chrono::seconds(30)},
       .sharded_updates = numbers["sharded"] != 0,
       .elastic = elastic});
  const auto pass_time = [&](const char* name, const char* says) {
    if (numbers[name] == 0) return;
    std::puts(says);
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(numbers[name]));
  };
  pass_time("read_ms", "reads its data");
  const Data classes;
  ls::Synchronization synchronization;
  if (numbers["rounds"] > 0 && numbers["diloco"] != 0)
    synchronization = ls::DiLoCo{.steps = numbers["rounds"]};
  else if (numbers["rounds"] > 0)
    synchronization = ls::LocalSGD{.steps = numbers["rounds"]};
  SlowSteps slow{.least = std::chrono::milliseconds(numbers["step_ms"]), .leave = numbers["leave"]};
  const auto data = samples_of(classes).batch(numbers["batch"]);
  const ls::FitOptions options{
      .epochs = numbers["epochs"], .verbose = 0, .steps_per_epoch = numbers["steps"]};
  InnerFit inner;
  if (numbers["inner"] > 0)
    inner.fit = [&] {
      auto other = ls::compile<Net>(strategy, {.seed = 4},
                                    ls::SparseCategoricalCrossentropy{.from_logits = true},
                                    ls::SGD{.learning_rate = 0.05});
      SlowSteps also_slow{.least = slow.least, .told = true};
      other.fit(data, {.epochs = 1, .verbose = 0, .steps_per_epoch = numbers["inner"]}, also_slow);
    };
  const char* const backup_dir = std::getenv("ELASTIC_BACKUP_DIR");
  ls::BackupAndRestore backup{.backup_dir = backup_dir == nullptr ? "" : backup_dir};
  if (numbers["freq"] > 0) backup.save_freq = numbers["freq"];
  for (int fold = 1; fold <= numbers["folds"]; ++fold) {
    auto model = compiled(strategy, synchronization);
    pass_time("late_ms", "has compiled");
    ls::History history;
    for (int fit = 1; fit <= numbers["fits"]; ++fit) {
      slow.told = false;
      history = backup_dir == nullptr ? model.fit(data, options, slow, inner)
                                      : model.fit(data, options, slow, backup);
    }
    say_final(model, history["loss"].back());
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(numbers["linger_ms"]));
}

std::vector<Stretch> stretches(std::string_view text) {
  std::vector<Stretch> all;
  for (const char *at = text.data(), *const end = at + text.size(); at < end; ++at) {
    Stretch& each = all.emplace_back();
    at = std::from_chars(at, end, each.batch).ptr + 1;  // "24x"
    at = std::from_chars(at, end, each.steps).ptr;      // "13", then ","
  }
  return all;
}

int run(int argc, char** argv) {
  Numbers numbers{{"elastic", 1},  {"min", 1},     {"wait_ms", 2000}, {"epochs", 3},
                  {"steps", 20},   {"batch", 24},  {"step_ms", 0},    {"timeout_ms", 20'000},
                  {"replicas", 1}, {"auto", 0},    {"shared", 0},     {"linger_ms", 0},
                  {"inner", 0},    {"follows", 0}, {"sharded", 0},    {"freq", 0},
                  {"rounds", 0},   {"diloco", 0},  {"leave", 0},      {"read_ms", 0},
                  {"late_ms", 0},  {"fits", 1},    {"folds", 1}};
  std::vector<Stretch> by_hand;
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    const auto equals = text.find('=');
    if (text.starts_with("by_hand=")) {
      by_hand = stretches(text.substr(equals + 1));
      continue;
    }
    std::from_chars(text.data() + equals + 1, text.data() + text.size(),
                    numbers.at(std::string(text.substr(0, equals))));
  }
  if (!by_hand.empty()) {
    train_by_hand(by_hand, numbers["steps"]);
    return 0;
  }
  std::printf("process %d\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  if (numbers["auto"] != 0)
    train<ls::Auto>(numbers);
  else if (numbers["shared"] != 0)
    train<ls::SharedMemory>(numbers);
  else
    train<ls::Ring<ls::Tcp>>(numbers);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return ls::run(argc, argv, run); }
