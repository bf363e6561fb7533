// expect-error: fit.dataset. needs a dataset of batches: put .batch.n. at its end
// expect-error 2: evaluate.dataset. needs a dataset of batches: put .batch.n. at its end
// expect-error 3: predict.dataset. needs a dataset of batches: put .batch.n. at its end
// expect-error 4: a dataset of batches is needed here: put .batch.n. at the end of this pipeline
// expect-count 4: 1
// expect-error 5: fit.x, y. needs two arrays.*callbacks come behind the options, as in fit.dataset, {
#include <lockstep/local.hpp>

#include <vector>

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<4>, ls::Dense<10>>;

struct Hello {
  void on_train_begin(ls::Training&) {}
};

int main() {
  ls::OneDeviceStrategy strategy;
  auto model =
      ls::compile<Net>(strategy, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{});
  const auto samples =
      ls::from_tensor_slices(Eigen::MatrixXf(Eigen::MatrixXf::Zero(8, 4)), std::vector<int>(8))
          .shuffle(8);
#if LOCKSTEP_COMPILE_FAIL == 1
  model.fit(samples, {.epochs = 2});
#elif LOCKSTEP_COMPILE_FAIL == 2
  model.evaluate(samples, {.steps = 2});
#elif LOCKSTEP_COMPILE_FAIL == 3
  model.predict(samples);
#elif LOCKSTEP_COMPILE_FAIL == 4
  model.fit(samples.batch(4), {.epochs = 2, .validation_data = samples});
#elif LOCKSTEP_COMPILE_FAIL == 5
  model.fit(samples.batch(4), Hello{});
#else
  model.fit(samples.batch(4), {.epochs = 2, .validation_data = samples.batch(2)}, Hello{});
  model.evaluate(samples.batch(4), {.steps = 2}, Hello{});
  model.predict(samples.batch(4));
#endif
}
