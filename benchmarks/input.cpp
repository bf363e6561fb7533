// What an augmented input costs a step: ResNet-20 on batches of 128 images that are cropped and
// flipped at random, read ahead by a thread (prefetch) or by the training thread itself, beside the
// same steps on images as they are. How much faster two threads read such images than one. And what
// a loop of the program's own costs beside fit, with the tutorial's CNN. One training thread; the
// thread that reads ahead needs a second core.
//
// benchmark_input [rounds (default: 7)]
//
// What is compared is measured in turn, in an order that changes from round to round; the ratios
// are medians of the rounds' ratios (lowest to highest). Processor time is that of the training
// thread alone, which other programs disturb little.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "deep_models.hpp"
#include "fixed_batch.hpp"
#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/data/augmentation.hpp"
#include "lockstep/data/parallel_read.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/model/own_loop.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "models.hpp"

namespace {

namespace ls = lockstep;

struct Seconds {
  double real, processor;
};

Seconds now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return {
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
      static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)};
}

Seconds per_step(const Seconds& begin, int steps) {
  const Seconds end = now();
  return {(end.real - begin.real) / steps, (end.processor - begin.processor) / steps};
}

/// Of the second of two epochs: in the first one, buffers are filled and caches are cold.
struct SecondEpoch {
  int steps;
  Seconds begin = {}, taken = {};
  void on_epoch_begin(ls::Training&, int) { begin = now(); }
  void on_epoch_end(ls::Training&, int, ls::Logs&) { taken = per_step(begin, steps); }
};
static_assert(ls::Callback<SecondEpoch>);

template <class Model, class Dataset>
Seconds fit(Model& model, const Dataset& data, int steps) {
  SecondEpoch timed{.steps = steps};
  model.fit(data, {.epochs = 2, .verbose = 0, .steps_per_epoch = steps}, timed);
  return timed.taken;
}

/// The same number of steps outside of fit.
template <class Strategy, class Model, class Dataset>
Seconds own_loop(Strategy& strategy, Model& model, const Dataset& data, int steps) {
  Seconds begin{}, taken{};
  auto batches = strategy.distribute(data);
  strategy.run([&](auto& replica) {
    auto& here = model.on(replica);
    int step = 0;
    for (const auto& batch : batches.on(replica, {.seed = model.seed(), .number = 0})) {
      here.minimize(batch);
      if (++step == steps) begin = now();
      if (step < 2 * steps) continue;
      taken = per_step(begin, steps);
      break;
    }
  });
  return taken;
}

/// The middle one of these numbers, and the outer ones.
struct Range {
  double median, low, high;
};
Range range_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

struct Variant {
  const char* what;
  const char* goal;
  std::function<Seconds()> run;
  std::vector<Seconds> taken = {};
};

/// Prints each variant, and its ratio to the first one.
void compare(const char* title, std::vector<Variant> variants, int rounds, std::mt19937& random) {
  std::vector<std::size_t> order(variants.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) variants[i].taken.push_back(variants[i].run());
  }
  std::printf("%s\n", title);
  for (const Variant& variant : variants) {
    std::vector<double> real, processor, real_ratio, processor_ratio;
    for (std::size_t i = 0; i < variant.taken.size(); ++i) {
      const Seconds &taken = variant.taken[i], &first = variants[0].taken[i];
      real.push_back(1e3 * taken.real);
      processor.push_back(1e3 * taken.processor);
      real_ratio.push_back(taken.real / first.real);
      processor_ratio.push_back(taken.processor / first.processor);
    }
    const Range r = range_of(real), p = range_of(processor), rr = range_of(real_ratio),
                pr = range_of(processor_ratio);
    std::printf("  %-34s real %7.2f ms (%.2f to %.2f), processor %7.2f ms (%.2f to %.2f)\n",
                variant.what, r.median, r.low, r.high, p.median, p.low, p.high);
    if (&variant != variants.data())
      std::printf("  %-34s real %.3f (%.3f to %.3f), processor %.3f (%.3f to %.3f), goal: %s\n",
                  "  beside the first", rr.median, rr.low, rr.high, pr.median, pr.low, pr.high,
                  variant.goal);
  }
}

void measure_input(int rounds, std::mt19937& random) {
  using Subject = benchmarks::ResNet20;
  constexpr std::size_t count = 4 * Subject::batch;
  std::vector<float> pixels(count * 32 * 32 * 3);
  std::vector<std::uint8_t> labels(count);
  std::uniform_real_distribution<float> pixel(0, 1);
  std::generate(pixels.begin(), pixels.end(), [&] { return pixel(random); });
  std::generate(labels.begin(), labels.end(), [&] { return random() % 10; });
  const auto images =
      ls::from_tensor_slices(ls::Tensor<float>(std::move(pixels), {count, 32, 32, 3}),
                             ls::Tensor<std::uint8_t>(std::move(labels)))
          .shuffle(count);
  constexpr ls::ImageShape shape{32, 32, 3};
  const auto augmented = images.map(ls::RandomCrop{.image = shape, .padding = 4})
                             .map(ls::RandomFlip{.image = shape})
                             .repeat()
                             .batch(Subject::batch);
  const auto plain = images.repeat().batch(Subject::batch);

  ls::MirroredStrategy strategy({.replicas = 1});
  auto model = ls::compile<Subject::Net>(strategy, ls::CompileOptions{.seed = 1},
                                         ls::SparseCategoricalCrossentropy{.from_logits = true},
                                         Subject::optimizer());
  constexpr int steps = 6;
  compare(
      "ResNet-20, batch 128, a step",
      {{"images as they are", "", [&] { return fit(model, plain, steps); }},
       {"augmented, read ahead", "1.03 or less, with a spare core",
        [&] { return fit(model, augmented.prefetch(2), steps); }},
       {"augmented, by the training thread", "none", [&] { return fit(model, augmented, steps); }}},
      rounds, random);
}

/// Batches of images, cropped, flipped, rotated and zoomed, read alone by one thread and by two.
void measure_reading(int rounds, std::mt19937& random) {
  constexpr std::size_t count = 1024;
  constexpr ls::ImageShape shape{32, 32, 3};
  std::vector<float> pixels(count * 32 * 32 * 3);
  std::uniform_real_distribution<float> pixel(0, 1);
  std::generate(pixels.begin(), pixels.end(), [&] { return pixel(random); });
  const auto images =
      ls::from_tensor_slices(ls::Tensor<float>(std::move(pixels), {count, 32, 32, 3}))
          .shuffle(count)
          .map(ls::RandomCrop{.image = shape, .padding = 4})
          .map(ls::RandomFlip{.image = shape})
          .map(ls::RandomRotation{.image = shape, .factor = 0.1})
          .map(ls::RandomZoom{.image = shape, .height_factor = 0.2});
  const auto read = [](auto dataset) {
    constexpr std::size_t batch = 128, stride = ls::padded_batch(batch);
    std::vector<float> memory(stride * dataset.sample_size());
    std::vector<std::size_t> positions(batch);
    for (std::size_t i = 0; i < batch; ++i) positions[i] = i;
    const ls::TensorView<float> x(memory.data(), batch, dataset.sample_size(), stride);
    Seconds begin{};
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      dataset.begin({.seed = 1, .number = epoch});
      begin = now();
      while (dataset.next() > 0) dataset.template read<float>(positions, x, {});
    }
    return per_step(begin, count / batch);
  };
  compare("128 augmented images, read alone",
          {{"by one thread", "", [&] { return read(images.batch(128)); }},
           {"parallel_read(2)", "0.56 or less, on two free cores",
            [&] { return read(images.parallel_read(2).batch(128)); }}},
          rounds, random);
}

void measure_own_loop(int rounds, std::mt19937& random) {
  using Subject = benchmarks::Cnn;
  const auto data = benchmarks::fixed_batch<Subject>();
  ls::MirroredStrategy strategy({.replicas = 1});
  auto model = ls::compile<Subject::Net>(strategy, ls::CompileOptions{.seed = 1},
                                         ls::SparseCategoricalCrossentropy{.from_logits = true},
                                         ls::SGD{.learning_rate = 1e-3});
  constexpr int steps = 100;
  compare("the tutorial's CNN, batch 64, a step",
          {{"fit", "", [&] { return fit(model, data, steps); }},
           {"loop of the program's own", "1.03 or less",
            [&] { return own_loop(strategy, model, data, steps); }}},
          rounds, random);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  if (argc > 2 || rounds < 1) {
    std::fprintf(stderr, "usage: benchmark_input [rounds]\n");
    return 2;
  }
  std::mt19937 random(1);
  measure_input(rounds, random);
  measure_reading(rounds, random);
  measure_own_loop(rounds, random);
}
