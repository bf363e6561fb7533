// Whether MixedBFloat16 trains as float does: the final losses of the small GPT on the characters
// of a text, and of ResNet-20 on CIFAR-10, over several seeds, as Markdown tables; and what the model
// of float predicts for what is held back with fewer bits. One thread.
//
// benchmark_mixed_precision TEXT_FILE|- CIFAR_FOLDER|- [seeds (default: 5)]
//
// What is "-", or is not there, is left out, which stderr says; with neither, the program ends with
// 77. "loss" is the mean of the last 50 steps of 300 (GPT) and 200 (ResNet-20), "val_loss" that of
// what is held back. Both are said to hold where the mean of bfloat16 lies between the lowest and
// the highest of float; predictions where loss and accuracy are within 0.5 % of float's. Else the
// program ends with 1.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "deep_models.hpp"
#include "lockstep/data/augmentation.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/datasets/image_sets.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/mixed_precision.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/schedules.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/saving/int8_weights.hpp"
#include "lockstep/saving/predictor.hpp"
#include "lockstep/training/history.hpp"

namespace {

namespace ls = lockstep;

constexpr int steps_of_mean = 50;

struct Arrays {
  ls::Tensor<float> x, y;
};
/// Of what is held back: the mean loss, and the share of largest logits at the right place.
struct Score {
  double loss = 0, accuracy = 0;
};
struct Losses {
  std::vector<double> loss, val_loss;
  std::vector<Score> of_float, of_bfloat16, of_int8;  ///< what the model of float predicts
};

template <class Predictor>
Score score(const Predictor& predictor, const Arrays& held_back) {
  const std::span<const float> labels = held_back.y.values();
  std::vector<float> all(held_back.y.rows() * Predictor::output_size);
  predictor.predict(held_back.x.values(), all);
  const std::size_t classes = all.size() / labels.size();
  Score sum;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto logits = std::span(all).subspan(i * classes, classes);
    const auto largest = std::ranges::max_element(logits);
    const auto label = static_cast<std::size_t>(labels[i]);
    double exponentials = 0;
    for (const float logit : logits)
      exponentials += std::exp(static_cast<double>(logit - *largest));
    sum.loss += std::log(exponentials) + static_cast<double>(*largest - logits[label]);
    sum.accuracy += static_cast<std::size_t>(largest - logits.begin()) == label;
  }
  const auto count = static_cast<double>(labels.size());
  return {sum.loss / count, sum.accuracy / count};
}

/// Trains for `epochs` of steps_of_mean steps.
template <class Net, class... Policy, class Data, class Optimizer>
void train(Losses& losses, std::uint64_t seed, int epochs, const Data& data,
           const Arrays& held_back, const Optimizer& optimizer) {
  auto model = ls::compile<Net, Policy...>(
      {.seed = seed}, ls::SparseCategoricalCrossentropy{.from_logits = true}, optimizer);
  const ls::History history =
      model.fit(data, {.epochs = epochs, .verbose = 0, .steps_per_epoch = steps_of_mean});
  losses.loss.push_back(history["loss"].back());
  losses.val_loss.push_back(
      model.evaluate(ls::from_tensor_slices(held_back.x, held_back.y).batch(100), {.verbose = 0})
          .at("loss"));
  if constexpr (sizeof...(Policy) == 0) {
    losses.of_float.push_back(score(ls::Predictor<Net>(model), held_back));
    losses.of_bfloat16.push_back(score(ls::Predictor<Net, ls::MixedBFloat16>(model), held_back));
    losses.of_int8.push_back(score(ls::Predictor<Net, ls::Int8Weights>(model), held_back));
  }
}

/// Characters as numbers, and pieces of them: each a sample whose target is one character later.
class Text {
 public:
  explicit Text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    std::string symbols = bytes_;
    std::ranges::sort(symbols);
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    if (bytes_.size() < 100 * piece || symbols.size() > benchmarks::CharGpt::classes) {
      std::fprintf(
          stderr,
          "benchmark_mixed_precision: '%s': expected a text of at least %zu bytes, at most "
          "%zu different ones; it has %zu and %zu\n",
          path.c_str(), 100 * piece, benchmarks::CharGpt::classes, bytes_.size(), symbols.size());
      std::exit(2);
    }
    for (char& byte : bytes_) byte = static_cast<char>(symbols.find(byte));
  }

  /// `count` pieces from anywhere in the first nine tenths, or in the rest.
  [[nodiscard]] Arrays pieces(std::size_t count, bool is_held_back, std::uint64_t seed) const {
    const std::size_t border = bytes_.size() * 9 / 10;
    const std::size_t first = is_held_back ? border : 0,
                      last = (is_held_back ? bytes_.size() : border) - piece - 1;
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<std::size_t> places(first, last);
    std::vector<float> x(count * piece), y(count * piece);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = places(random);
      for (std::size_t t = 0; t < piece; ++t) {
        x[i * piece + t] = static_cast<float>(bytes_[place + t]);
        y[i * piece + t] = static_cast<float>(bytes_[place + t + 1]);
      }
    }
    return {{std::move(x), {count, piece}}, {std::move(y), {count, piece}}};
  }

 private:
  static constexpr std::size_t piece = benchmarks::CharGpt::targets;
  std::string bytes_;
};

void train_gpt(const Text& text, std::uint64_t seed, Losses& in_float, Losses& in_bfloat16) {
  using Gpt = benchmarks::CharGpt;
  constexpr int epochs = 6;
  const Arrays learned = text.pieces(epochs * steps_of_mean * Gpt::batch, false, seed);
  const auto data = ls::from_tensor_slices(learned.x, learned.y).batch(Gpt::batch);
  const Arrays held_back = text.pieces(1'000, true, 0);
  ls::AdamW optimizer = Gpt::optimizer();
  optimizer.learning_rate = 1e-3;
  train<Gpt::Net>(in_float, seed, epochs, data, held_back, optimizer);
  train<Gpt::Net, ls::MixedBFloat16>(in_bfloat16, seed, epochs, data, held_back, optimizer);
}

/// For map: of mean 0 and deviation 1, roughly.
constexpr auto normalize = [](auto& sample) {
  for (auto& value : sample.x) value = value / 64 - 2;
};

void train_resnet(const ls::ImageDataset& cifar, std::uint64_t seed, Losses& in_float,
                  Losses& in_bfloat16) {
  using ResNet = benchmarks::ResNet20;
  constexpr int epochs = 4;
  constexpr ls::ImageShape image{32, 32, 3};
  const auto data = ls::from_tensor_slices(cifar.train.images, cifar.train.labels)
                        .shuffle(50'000)
                        .map(normalize)
                        .map(ls::RandomFlip{.image = image})
                        .repeat()
                        .batch(ResNet::batch);
  const auto& [images, labels] = cifar.test;
  struct {
    std::vector<float> x, y;
  } all{{images.values().begin(), images.values().end()},
        {labels.values().begin(), labels.values().end()}};
  normalize(all);
  const Arrays held_back{{std::move(all.x), images.shape()}, {std::move(all.y), labels.shape()}};
  const ls::SGD optimizer{.learning_rate = ls::CosineDecay{.initial_learning_rate = 0.05,
                                                           .decay_steps = epochs * steps_of_mean},
                          .momentum = 0.9};
  train<ResNet::Net>(in_float, seed, epochs, data, held_back, optimizer);
  train<ResNet::Net, ls::MixedBFloat16>(in_bfloat16, seed, epochs, data, held_back, optimizer);
}

/// A row for each seed, and one of means (lowest to highest). Whether the means hold.
template <class Train>
bool compare(const char* name, std::uint64_t seeds, const Train& train_both) {
  Losses in_float, in_bfloat16;
  std::printf(
      "\n| %s | loss: float | bfloat16 | val_loss: float | bfloat16 |\n|---|---|---|---|---|\n",
      name);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    train_both(seed, in_float, in_bfloat16);
    std::printf("| seed %d | %.4f | %.4f | %.4f | %.4f |\n", static_cast<int>(seed),
                in_float.loss.back(), in_bfloat16.loss.back(), in_float.val_loss.back(),
                in_bfloat16.val_loss.back());
    std::fflush(stdout);
  }
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  const auto summary = [&](const std::vector<double>& values) {
    const auto [low, high] = std::ranges::minmax(values);
    std::printf(" %.4f (%.4f to %.4f) |", mean(values), low, high);
  };
  const auto holds = [&](const std::vector<double>& of_float, const std::vector<double>& other) {
    const auto [low, high] = std::ranges::minmax(of_float);
    return low <= mean(other) && mean(other) <= high;
  };
  std::printf("| mean (lowest to highest) |");
  summary(in_float.loss);
  summary(in_bfloat16.loss);
  summary(in_float.val_loss);
  summary(in_bfloat16.val_loss);
  const bool loss = holds(in_float.loss, in_bfloat16.loss),
             val_loss = holds(in_float.val_loss, in_bfloat16.val_loss);
  std::printf("\n| bfloat16's mean within float's spread | | %s | | %s |\n", loss ? "yes" : "NO",
              val_loss ? "yes" : "NO");

  const auto of_all = [](const std::vector<Score>& scores) {
    Score sum;
    for (const Score& one : scores) {
      sum.loss += one.loss / static_cast<double>(scores.size());
      sum.accuracy += one.accuracy / static_cast<double>(scores.size());
    }
    return sum;
  };
  std::printf("\n| %s, predictions | val_loss | accuracy | within 0.5 %% |\n|---|---|---|---|\n",
              name);
  const Score of_float = of_all(in_float.of_float);
  bool predictions = true;
  const auto row = [&](const char* numbers, const std::vector<Score>& scores) {
    const Score mine = of_all(scores);
    const bool is_near = std::abs(mine.loss - of_float.loss) <= 0.005 * of_float.loss &&
                         std::abs(mine.accuracy - of_float.accuracy) <= 0.005;
    predictions &= is_near;
    std::printf("| %s | %.5f | %.4f | %s |\n", numbers, mine.loss, mine.accuracy,
                is_near ? "yes" : "NO");
  };
  row("float", in_float.of_float);
  row("MixedBFloat16", in_float.of_bfloat16);
  row("Int8Weights", in_float.of_int8);
  std::fflush(stdout);
  return loss && val_loss && predictions;
}

bool is_there(const char* data, const char* what) {
  if (std::filesystem::exists(data)) return true;
  std::fprintf(stderr, "benchmark_mixed_precision: SKIPPED: %s: '%s' is not there\n", what, data);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: benchmark_mixed_precision TEXT_FILE|- CIFAR_FOLDER|- [seeds]\n");
    return 2;
  }
  const std::uint64_t seeds = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 5;
  bool holds = true;
  const bool has_text = is_there(argv[1], "the GPT"), has_images = is_there(argv[2], "ResNet-20");
  if (!has_text && !has_images) return 77;
  if (has_text) {
    const Text text(argv[1]);
    holds &= compare("GPT, 300 steps", seeds, [&](std::uint64_t seed, Losses& a, Losses& b) {
      train_gpt(text, seed, a, b);
    });
  }
  if (has_images) {
    const ls::ImageDataset cifar = ls::load_cifar10(argv[2]);
    holds &= compare("ResNet-20, 200 steps", seeds, [&](std::uint64_t seed, Losses& a, Losses& b) {
      train_resnet(cifar, seed, a, b);
    });
  }
  return holds ? 0 : 1;
}
