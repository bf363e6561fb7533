// expect-error: the first layer of a model must be its Input
#include <lockstep/local.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Net = ls::Sequential<ls::Dense<10>>;
#else
using Net = ls::Sequential<ls::Input<4>, ls::Dense<10>>;
#endif

int main() {
  ls::OneDeviceStrategy strategy;
  auto model =
      ls::compile<Net>(strategy, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{});
}
