// expect-error: this model was compiled without a loss: for fit, evaluate and the like, write compile<Net>
// expect-error 2: this model was compiled without an optimizer: to train it, write compile<Net>
// expect-error 3: a model without a loss has no targets, and so no metrics
// expect-error 4: the strategy must outlive the model: give it a name
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
#else
  auto model = ls::compile<Net>();
  model.predict(x);
  auto evaluated = ls::compile<Net>(ls::MeanSquaredError{});
  evaluated.evaluate(x, y);
#endif
}
