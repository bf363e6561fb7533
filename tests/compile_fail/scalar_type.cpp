// A model of numbers that no library of ours computes with.
// expect-error: lockstep: compile<Net, T>: the type of all arrays is float or double
// expect-count: 2
// expect-error 3: lockstep: compile<Net, T>: the type of all arrays is float or double
// expect-count 3: 2
// expect-error 2: lockstep: compile<Net, double>: the library holds float alone
#include <lockstep/local.hpp>

using Net = lockstep::Sequential<lockstep::Input<4>, lockstep::Dense<2>>;

#if LOCKSTEP_COMPILE_FAIL == 1
using Number = int;
#elif LOCKSTEP_COMPILE_FAIL == 3
using Number = long double;
#elif LOCKSTEP_COMPILE_FAIL == 2
using Number = double;
#else
using Number = float;
#endif

int main() {
  lockstep::OneDeviceStrategy strategy;
  auto model = lockstep::compile<Net, Number>(
      strategy, lockstep::SparseCategoricalCrossentropy{.from_logits = true}, lockstep::SGD{});
}
