// The same model trained by one process, on all of its cores. No sockets, no JSON: quick to
// compile.
#include <lockstep/local.hpp>

namespace ls = lockstep;

using Cnn = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                           ls::Flatten, ls::Dense<128, ls::ReLU>, ls::Dense<10>>;

int main() {
  ls::MirroredStrategy strategy;
  const auto digits = ls::make_synthetic_digits();
  auto model = ls::compile<Cnn>(strategy, ls::SparseCategoricalCrossentropy{.from_logits = true},
                                ls::SGD{.learning_rate = 0.02, .momentum = 0.9}, ls::Accuracy{});
  model.fit(digits.train.images / 255.0f, digits.train.labels, {.batch_size = 64, .epochs = 3});
  model.evaluate(digits.test.images / 255.0f, digits.test.labels);
}
