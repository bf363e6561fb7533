// expect-error: no such call of fit.*an option is misspelt.*FitOptions has.*epochs
// expect-count: 2
// expect-error 2: no such call of fit.*callbacks.*an option is misspelt.*FitOptions has.*shuffle
// expect-count 2: 3
// expect-error 3: no such call of fit.*fit.x, y, {options}, callbacks.*FitOptions has
// expect-error 4: no such call of evaluate.*EvaluateOptions has.*steps
// expect-error 5: no such call of predict.*PredictOptions has.*batch_size
// expect-error 6: no such call of fit.*or of the wrong type
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
  const Eigen::MatrixXf x = Eigen::MatrixXf::Zero(8, 4);
  const std::vector<int> y(8);
  const auto samples = ls::from_tensor_slices(x, y).batch(4);
  Hello hello;
#if LOCKSTEP_COMPILE_FAIL == 1
  model.fit(samples, {.epoch = 2});
#elif LOCKSTEP_COMPILE_FAIL == 2
  model.fit(samples, {.epochs = 2, .callbacks = hello}, hello);
#elif LOCKSTEP_COMPILE_FAIL == 3
  model.fit(x, y, {.batchsize = 2}, hello, Hello{});
#elif LOCKSTEP_COMPILE_FAIL == 4
  model.evaluate(samples, {.step = 1});
#elif LOCKSTEP_COMPILE_FAIL == 5
  model.predict(x, {.batchsize = 2}, hello);
#elif LOCKSTEP_COMPILE_FAIL == 6
  model.fit(samples, {.epochs = "2"});
#else
  model.fit(samples, {.epochs = 2});
  model.fit(samples, {.epochs = 2}, hello);
  model.fit(x, y, {.batch_size = 2}, hello, Hello{});
  model.fit(x, y, {}, hello);
  model.fit(x, y);
  model.evaluate(samples, {.steps = 1});
  model.evaluate(x, y, {.batch_size = 2}, hello);
  model.predict(x, {.batch_size = 2}, hello);
  model.predict(samples);
#endif
}
