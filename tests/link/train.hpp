#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <lockstep/lockstep.hpp>

namespace {  // one copy for each translation unit, which is what the test compares

/// The loss of a little model after a few epochs on data that it can learn.
double train() {
  namespace ls = lockstep;
  using Network = ls::Sequential<ls::Input<2>, ls::Dense<16, ls::ReLU>, ls::Dense<2>>;
  Eigen::MatrixXf x(64, 2);
  std::vector<std::int64_t> y(64);
  for (int i = 0; i < 64; ++i) {
    x.row(i) << static_cast<float>(i % 8) - 3.5f, static_cast<float>(i / 8) - 3.5f;
    y[static_cast<std::size_t>(i)] = x(i, 0) * x(i, 1) > 0 ? 1 : 0;
  }
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Network>(strategy, {.seed = 1},
                                    ls::SparseCategoricalCrossentropy{.from_logits = true},
                                    ls::SGD{.learning_rate = 0.1f}, ls::Accuracy{});
  return model.fit(x, y, {.batch_size = 16, .epochs = 10, .verbose = 0})["loss"].back();
}

}  // namespace
