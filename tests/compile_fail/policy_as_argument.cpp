// expect-error: a policy is a type, not an argument
#include <lockstep/local.hpp>
#include <lockstep/network/mixed_precision.hpp>

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<4>, ls::Dense<1>>;

int main() {
  ls::OneDeviceStrategy strategy;
#ifdef LOCKSTEP_COMPILE_FAIL
  auto model = ls::compile<Net>(strategy, ls::MixedBFloat16{}, ls::MeanSquaredError{}, ls::SGD{});
#else
  auto model = ls::compile<Net, ls::MixedBFloat16>(strategy, ls::MeanSquaredError{}, ls::SGD{});
#endif
}
