// A model that learns labels without times: on one device and on threads, in a loop of the
// program's, saved and restored.
#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/random.hpp"
#include "lockstep/data/joined_stages.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshaping.hpp"
#include "lockstep/layers/rnn.hpp"
#include "lockstep/losses/ctc.hpp"
#include "lockstep/metrics/mean_losses.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;

namespace {

constexpr std::size_t steps = 8, classes = 4, rows = 120;

using Net = ls::Sequential<ls::Input<steps, 3>, ls::ToSequence,
                           ls::GRU<16, ls::GRUOptions{.return_sequences = true}>,
                           ls::Dense<classes>, ls::Flatten, ls::Reshape<steps, classes>>;

/// Sounds 1 to 3 of two or three steps each, and what has been said.
struct Speech {
  std::vector<float> sounds = std::vector<float>(rows * steps * 3),
                     labels = std::vector<float>(rows * steps);

  Speech() {
    ls::RandomStream random{ls::RandomKey(7)};
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t step = 0, said = 0; step + 3 <= steps; ++said) {
        const auto label = static_cast<std::size_t>(random.uniform(0, 3));
        labels[row * steps + said] = static_cast<float>(label + 1);
        const std::size_t last = step + static_cast<std::size_t>(random.uniform(1, 3));
        for (; step < last; ++step) sounds[(row * steps + step) * 3 + label] = 1;
        ++step;  // silence
      }
  }
  [[nodiscard]] auto pairs() const {
    return ls::zip(ls::from_tensor_slices(ls::Tensor<float>(sounds, {rows, steps, 3})),
                   ls::from_tensor_slices(ls::Tensor<float>(labels, {rows, steps})));
  }
  /// The part of the rows whose labels the logits say.
  [[nodiscard]] double heard(std::span<const float> logits) const {
    double right = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<int> wanted;
      for (std::size_t i = 0; i < steps && labels[row * steps + i] > 0; ++i)
        wanted.push_back(static_cast<int>(labels[row * steps + i]));
      const auto of_row = logits.subspan(row * steps * classes, steps * classes);
      right += ls::ctc_decode(of_row, classes)[0].labels == wanted ? 1 : 0;
    }
    return right / static_cast<double>(rows);
  }
};

}  // namespace

TEST_CASE("CTC: a model learns, the same on threads, saved and restored") {
  const Speech speech;
  std::vector<std::vector<double>> losses;
  for (const int replicas : {1, 2}) {
    ls::MirroredStrategy strategy({.replicas = replicas});
    auto model = ls::compile<Net>(strategy, {.seed = 1}, ls::CTC{}, ls::Adam{.learning_rate = 0.02},
                                  ls::MeanLoss<ls::CTC>{});
    const auto history =
        model.fit(speech.pairs().shuffle(rows).batch(24), {.epochs = 20, .verbose = 0});
    losses.push_back(history["loss"]);
    CHECK(history["ctc"] == history["loss"]);
    const auto said = model.predict(speech.pairs().batch(30));
    CHECK(speech.heard(std::span(said.data(), static_cast<std::size_t>(said.size()))) > 0.95);

    const lockstep_test::TemporaryFolder folder;
    model.save_weights(folder.path("ctc.safetensors"));
    auto other = ls::compile<Net>(strategy, {.seed = 2}, ls::CTC{}, ls::Adam{});
    other.load_weights(folder.path("ctc.safetensors"));
    CHECK(other.evaluate(speech.pairs().batch(24), {.verbose = 0}).at("loss") ==
          model.evaluate(speech.pairs().batch(24), {.verbose = 0}).at("loss"));
  }
  auto model = ls::compile<Net>({.seed = 1}, ls::CTC{}, ls::Adam{});
  CHECK_THROWS_WITH_AS(
      model.fit(speech.pairs().batch(24), {.verbose = 0, .class_weight = {{1, 2}}}),
      doctest::Contains("class_weight is for a model with one loss"), ls::ConfigurationError);
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(losses[0][i] == doctest::Approx(losses[1][i]).epsilon(1e-4));
}
