// What saving costs: a 100 MB state written and read beside dd on the same disk, and the tutorial's
// steps with a backup every 50 of them, written by a thread, beside the same steps without.
//
// benchmark_checkpoint [folder to write in (default: .)]
//
// What is compared is measured in turn, in one run; the figures are medians of the rounds (lowest
// to highest).

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "models.hpp"

namespace {

namespace ls = lockstep;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class F>
double seconds_of(F f) {
  const auto begin = Clock::now();
  f();
  return seconds_since(begin);
}

void shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

struct Figures {
  std::vector<double> values;
  [[nodiscard]] double median() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  void print(const char* what, double factor, const char* unit) const {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    std::printf("  %-46s %8.2f %s (%.2f to %.2f)\n", what, factor * median(), unit, factor * *low,
                factor * *high);
  }
};

void print_ratio(const char* what, double ratio, const char* goal) {
  std::printf("  %-46s %8.3f (goal: %s)\n", what, ratio, goal);
}

void save_and_restore(const std::string& folder) {
  constexpr std::size_t arrays = 10, bytes = std::size_t{10} << 20;
  ls::TrainingState state;
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < arrays; ++i) {
    std::vector<std::byte> values(bytes);
    std::generate(values.begin(), values.end(), [&] { return static_cast<std::byte>(random()); });
    ls::SavedArray& array = state.parameters.emplace_back();
    array.name = "array_" + std::to_string(i);
    array.extents = {bytes / 4};
    array.bytes = std::move(values);
  }
  const std::string ours = folder + "/state", source = folder + "/source", copy = folder + "/copy";
  ls::write_file_atomically(source, ls::EncodedCheckpoint(state).parts());  // what dd copies

  Figures save, restore, dd_write, dd_read;
  for (int round = 0; round < 7; ++round) {
    dd_write.values.push_back(seconds_of(
        [&] { shell("dd if=" + source + " of=" + copy + " bs=1M conv=fsync status=none"); }));
    save.values.push_back(
        seconds_of([&] { ls::write_file_atomically(ours, ls::EncodedCheckpoint(state).parts()); }));
    dd_read.values.push_back(
        seconds_of([&] { shell("dd if=" + copy + " of=/dev/null bs=1M status=none"); }));
    restore.values.push_back(seconds_of([&] {
      if (ls::decode_checkpoint(*ls::read_file(ours)).parameters.size() != arrays)
        throw std::runtime_error("lost");
    }));
    ls::remove_file(ours);
    ls::remove_file(copy);
  }
  ls::remove_file(source);
  std::printf("a state of 100 MiB\n");
  save.print("save (encode, write, fsync, rename)", 1e3, "ms");
  dd_write.print("dd bs=1M conv=fsync", 1e3, "ms");
  print_ratio("speed of save / dd", dd_write.median() / save.median(), "0.8 or more");
  restore.print("restore (read, check, decode)", 1e3, "ms");
  dd_read.print("dd to /dev/null", 1e3, "ms");
  print_ratio("speed of restore / dd", dd_read.median() / restore.median(), "0.8 or more");
}

/// The time of an epoch's steps, without the first epoch.
struct StepTimer {
  Clock::time_point begin{};
  Figures* figures;
  int steps;
  void on_epoch_begin(ls::Training&, int) { begin = Clock::now(); }
  void on_epoch_end(ls::Training&, int epoch, ls::Logs&) {
    if (epoch > 0) figures->values.push_back(seconds_since(begin) / steps);
  }
};

void steps_with_backups(const std::string& folder) {
  using Subject = benchmarks::Cnn;
  constexpr int steps = 50, epochs = 5;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> pixel(0, 1);
  std::vector<float> x(Subject::batch * 28 * 28);
  std::generate(x.begin(), x.end(), [&] { return pixel(random); });
  std::vector<std::uint8_t> y(Subject::batch);
  std::generate(y.begin(), y.end(), [&] { return static_cast<std::uint8_t>(random() % 10); });
  const auto data =
      ls::from_tensor_slices(ls::Tensor<float>(std::move(x), {Subject::batch, 28, 28}),
                             ls::Tensor<std::uint8_t>(std::move(y)))
          .repeat()
          .batch(static_cast<std::int64_t>(Subject::batch));
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Subject::Net>(strategy, {.seed = 1},
                                         ls::SparseCategoricalCrossentropy{.from_logits = true},
                                         ls::SGD{.learning_rate = 0.001}, ls::Accuracy{});
  Figures with, without;
  for (int round = 0; round < 12; ++round) {
    for (const bool saves : {false, true}) {
      StepTimer timer{.figures = saves ? &with : &without, .steps = steps};
      ls::BackupAndRestore backup{.backup_dir = folder, .save_freq = saves ? steps : 1'000'000'000};
      model.fit(data, {.epochs = epochs, .verbose = 0, .steps_per_epoch = steps}, timer, backup);
    }
  }
  std::printf("the tutorial's CNN, batch 64, one thread, 11 MB of parameters\n");
  without.print("a step", 1e3, "ms");
  with.print("a step, with a backup every 50 of them", 1e3, "ms");
  print_ratio("with / without", with.median() / without.median(), "1.03 or less");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string folder = std::string(argc > 1 ? argv[1] : ".") + "/benchmark_checkpoint." +
                               std::to_string(::getpid());
    shell("mkdir -p '" + folder + "'");
    save_and_restore(folder);
    steps_with_backups(folder);
    shell("rmdir '" + folder + "'");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
