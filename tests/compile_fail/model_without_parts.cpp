// expect-error: this model was compiled without a loss: for fit, evaluate and the like, write compile<Net>
// expect-error 2: this model was compiled without an optimizer: to train it, write compile<Net>
// expect-error 3: a model without a loss has no targets, and so no metrics
// expect-error 4: the strategy must outlive the model: give it a name
// expect-error 5: strategy, options, loss, optimizer, metrics.*what stands for the loss is none
// expect-error 6: must be metrics.*a loss as a metric is ls::metrics::MeanAbsoluteError
// expect-error 7: must be metrics: ls::Accuracy.., not a string
#include <lockstep/local.hpp>

#include <vector>

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<1>, ls::Dense<1>>;

int main() {
  const std::vector<float> x(4), y(4);
#if LOCKSTEP_COMPILE_FAIL == 1
  auto model = ls::compile<Net>(ls::SGD{});
  model.evaluate(x, y);
#elif LOCKSTEP_COMPILE_FAIL == 2
  auto model = ls::compile<Net>(ls::MeanSquaredError{});
  model.fit(x, y);
#elif LOCKSTEP_COMPILE_FAIL == 3
  auto model = ls::compile<Net>(ls::NoLoss{}, ls::SGD{}, ls::BinaryAccuracy{});
#elif LOCKSTEP_COMPILE_FAIL == 4
  auto model = ls::compile<Net>(ls::OneDeviceStrategy{}, ls::MeanSquaredError{}, ls::SGD{});
#elif LOCKSTEP_COMPILE_FAIL == 5
  auto model = ls::compile<Net>(ls::SGD{}, ls::MeanSquaredError{});
#elif LOCKSTEP_COMPILE_FAIL == 6
  auto model = ls::compile<Net>(ls::MeanSquaredError{}, ls::SGD{}, ls::MeanAbsoluteError{});
#elif LOCKSTEP_COMPILE_FAIL == 7
  auto model = ls::compile<Net>(ls::MeanSquaredError{}, ls::SGD{}, "accuracy");
#else
  auto model = ls::compile<Net>();
  model.predict(x);
  auto evaluated = ls::compile<Net>(ls::MeanSquaredError{});
  evaluated.evaluate(x, y);
#endif
}
