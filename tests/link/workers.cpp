// Trains with a seed, and prints the losses to the last bit.
#include <lockstep/lockstep.hpp>

#include <cstdio>

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<28, 28>, ls::Flatten, ls::Dense<32, ls::ReLU>, ls::Dense<10>>;

int main(int argc, char** argv) {
  return ls::run(argc, argv, [] {
    ls::MultiWorkerMirroredStrategy<ls::Auto> strategy;
    auto [images, labels] = ls::make_synthetic_digits().train;
    auto model = ls::compile<Net>(
        strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::Adam{});
    const auto history =
        model.fit(ls::from_tensor_slices(images / 255.0f, labels).take(2048).batch(64),
                  {.epochs = 3, .verbose = 0}, ls::BackupAndRestore{"backup"});
    for (const double loss : history["loss"]) std::printf("loss %a\n", loss);
  });
}
