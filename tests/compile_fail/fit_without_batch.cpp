// expect-error: fit.dataset. needs a dataset of batches: put .batch.n. at its end
#include <lockstep/local.hpp>

#include <vector>

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<4>, ls::Dense<10>>;

int main() {
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{});
  const auto samples =
      ls::from_tensor_slices(Eigen::MatrixXf(Eigen::MatrixXf::Zero(8, 4)), std::vector<int>(8)).shuffle(8);
#ifdef LOCKSTEP_COMPILE_FAIL
  model.fit(samples, {.epochs = 2});
#else
  model.fit(samples.batch(4), {.epochs = 2});
#endif
}
