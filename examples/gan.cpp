// Two models against each other: a generator learns to draw points on a ring. `gan --help` lists
// the options.
#include <lockstep/lockstep.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "command_line.hpp"

namespace ls = lockstep;

namespace {

using Generator =
    ls::Sequential<ls::Input<4>, ls::Dense<32, ls::ReLU>, ls::Dense<32, ls::ReLU>, ls::Dense<2>>;
using Discriminator =
    ls::Sequential<ls::Input<2>, ls::Dense<32, ls::LeakyReLU<>>, ls::Dense<32, ls::LeakyReLU<>>,
                   ls::Dense<1>>;  // above 0: a point that looks real

/// A point to learn, on a ring of radius 1, and as its target the noise that the generator makes
/// one of.
void draw(ls::Sample<float>& sample) {
  ls::RandomStream random(sample.key);
  const double angle = 6.283185307179586 * random.uniform(), radius = 1 + 0.05 * random.normal();
  sample.x[0] = static_cast<float>(radius * std::cos(angle));
  sample.x[1] = static_cast<float>(radius * std::sin(angle));
  for (float& noise : sample.y) noise = static_cast<float>(random.normal());
}

/// The loss of points that are to look real: log(1 + exp(-score)).
void looks_real(ls::TensorView<const float> scores, ls::TensorView<const float>,
                std::span<double> losses, ls::TensorView<float> gradient) {
  for (std::size_t row = 0; row < scores.samples(); ++row) {
    losses[row] = std::log1p(std::exp(-static_cast<double>(scores(row, 0))));
    gradient(row, 0) = -1 / (1 + std::exp(scores(row, 0)));
  }
  gradient.clear_padding();
}

void train(const examples::RunOptions& options, int epochs) {
  ls::MultiWorkerMirroredStrategy<> strategy({.replicas = options.replicas});
  const ls::Adam adam{.learning_rate = 0.001, .beta_1 = 0.5};
  auto generator =
      ls::compile<Generator>(strategy, {.seed = options.seed}, ls::MeanSquaredError{}, adam);
  auto discriminator = ls::compile<Discriminator>(
      strategy, {.seed = options.seed + 1}, ls::BinaryCrossentropy{.from_logits = true}, adam);
  auto batches = strategy.distribute(
      ls::from_generator(draw, {.size = 4'096, .sample_size = 2, .target_size = 4})
          .batch(options.batch_size * strategy.num_workers()));
  strategy.run([&](auto& replica) {
    auto& g = generator.on(replica);
    auto& d = discriminator.on(replica);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      g.reset_logs();
      d.reset_logs();
      for (const auto& real : batches.on(replica, {.seed = generator.seed(), .number = epoch})) {
        const std::size_t n = real.x.samples();
        const ls::ReplicaBatch<> noise{.x = real.targets, .sample_indices = real.sample_indices};
        const auto fake = g.forward(noise);
        const auto both = d.room(2 * n);  // first the real points, then the others
        both.x.matrix() << real.x.matrix(), fake.matrix();
        both.targets.matrix().setZero();
        both.targets.matrix().topRows(static_cast<Eigen::Index>(n)).setOnes();
        both.x.clear_padding();
        d.minimize({.x = both.x, .targets = both.targets});
        g.minimize(noise, [&](auto points, auto, auto losses,
                              auto gradient) {  // the discriminator is its loss
          d.input_gradient({.x = points}, looks_real, losses, gradient);
        });
      }
      if (options.verbose > 0 && replica.collective().rank() == 0)
        std::printf("Epoch %d/%d - discriminator: %.4f - generator: %.4f\n", epoch + 1, epochs,
                    d.logs().at("loss"), g.logs().at("loss"));
    }
  });

  std::vector<float> noise(1'000 * 4);
  ls::RandomStream random{ls::RandomKey(options.seed).fold_in(3)};
  for (float& value : noise) value = static_cast<float>(random.normal());
  const auto points = generator.predict(ls::Tensor<float>(noise, {1'000, 4})).cast<double>().eval();
  if (strategy.is_chief())
    std::printf("final: error=%.4f off_centre=%.4f parameters_crc32c=%08x\n",
                (points.rowwise().norm().array() - 1).abs().mean(), points.colwise().mean().norm(),
                static_cast<unsigned>(generator.parameters_crc32c()));
}

}  // namespace

int main(int argc, char** argv) {
  examples::RunOptions options;
  int epochs = 100;
  examples::CommandLine line("gan");
  options.add_to(line);
  line.number("--epochs", 1, 1'000'000, epochs);
  const std::string usage =
      std::string("usage: gan [options]\n  --epochs N           (default 100)\n") + options.usage;
  return examples::run(argc, argv, line, usage, [&] { train(options, epochs); });
}
