// expect-error: an array in braces has no type: write ls::Tensor<float>
// expect-error 2: an array in braces has no type: write ls::Tensor<float>
// expect-error 3: an array in braces has no type: write ls::Tensor<float>
// expect-error 4: in place of a std::vector of std::vectors, put all values into one
// expect-error 5: in place of a std::vector of std::vectors, put all values into one
#include <lockstep/local.hpp>

#include <vector>

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<2>, ls::Dense<2>>;

int main() {
  auto model = ls::compile<Net>(ls::MeanSquaredError{}, ls::SGD{});
#if LOCKSTEP_COMPILE_FAIL == 1
  model.predict({1.0f, 2.0f});
#elif LOCKSTEP_COMPILE_FAIL == 2
  model.predict({{1.0f, 2.0f}, {3.0f, 4.0f}});
#elif LOCKSTEP_COMPILE_FAIL == 3
  model.fit({1.0f, 2.0f}, {1.0f, 0.0f}, {.epochs = 2});
#elif LOCKSTEP_COMPILE_FAIL == 4
  model.predict(std::vector<std::vector<float>>{{1, 2}, {3, 4}});
#elif LOCKSTEP_COMPILE_FAIL == 5
  (void)ls::from_tensor_slices(std::vector<std::vector<float>>{{1, 2}}, std::vector<int>{1});
#else
  model.predict(ls::Tensor<float>({1, 2, 3, 4}, {2, 2}));
#endif
}
