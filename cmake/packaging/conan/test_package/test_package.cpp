#include <lockstep/lockstep.hpp>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<2>, ls::Dense<8, ls::ReLU>, ls::Dense<2>>;

int main() {
  std::vector<std::int64_t> labels(64);
  Eigen::MatrixXf points = Eigen::MatrixXf::Zero(64, 2);
  for (int i = 0; i < 64; ++i) {
    labels[static_cast<std::size_t>(i)] = i % 2;
    points(i, i % 2) = 1;
  }
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, {.seed = 1}, ls::SparseCategoricalCrossentropy{.from_logits = true},
                                ls::SGD{.learning_rate = 0.5}, ls::Accuracy{});
  const double loss = model.fit(points, labels, {.batch_size = 16, .epochs = 10, .verbose = 0})["loss"].back();
  std::printf("lockstep %d.%d.%d, loss %.4f\n", ls::version_major, ls::version_minor, ls::version_patch, loss);
  return loss < 0.3 && ls::cluster_from_environment().is_alone() ? 0 : 1;
}
