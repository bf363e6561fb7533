// The program of all consumer projects: learns which points are above the diagonal.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include <lockstep/local.hpp>

namespace ls = lockstep;

int main() {
  Eigen::MatrixXf x = Eigen::MatrixXf::Random(64, 2);
  std::vector<std::int64_t> y(64);
  for (int i = 0; i < 64; ++i) y[static_cast<std::size_t>(i)] = x(i, 0) < x(i, 1);
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<ls::Sequential<ls::Input<2>, ls::Dense<2>>>(
      strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true},
      ls::SGD{.learning_rate = 0.5f}, ls::Accuracy{});
  const auto losses = model.fit(x, y, {.batch_size = 16, .epochs = 5, .verbose = 0})["loss"];
  return losses.back() < losses.front() ? EXIT_SUCCESS : EXIT_FAILURE;
}
