// expect-error: ReLU .or Tanh,.* is an activation, not a layer: write ls::Activation<
// expect-nearby: 2
// expect-nearby: ReLU
// expect-error 2: ReLU .or Tanh,.* is an activation, not a layer: write ls::Activation<
// expect-nearby 2: 1
// expect-nearby 2: LeakyReLU<10>
// expect-error 3: ReLU .or Tanh,.* is an activation, not a layer: write ls::Activation<
// expect-nearby 3: 3
// expect-nearby 3: Linear
// expect-error 4: ReLU .or Tanh,.* is an activation, not a layer: write ls::Activation<
// expect-nearby 4: 2
// expect-nearby 4: GELU
#include <lockstep/layers/activations.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#if LOCKSTEP_COMPILE_FAIL == 1
using Model = ls::Sequential<ls::Input<784>, ls::Dense<128>, ls::ReLU, ls::Dense<10>>;
#elif LOCKSTEP_COMPILE_FAIL == 2
using Model = ls::Sequential<ls::Input<784>, ls::LeakyReLU<10>, ls::Dense<10>>;
#elif LOCKSTEP_COMPILE_FAIL == 3
using Model = ls::Sequential<ls::Input<28, 28>, ls::Flatten, ls::Dense<128>, ls::Linear>;
#elif LOCKSTEP_COMPILE_FAIL == 4
using Model = ls::Sequential<ls::Input<784>, ls::Dense<128>, ls::GELU, ls::Dense<10>>;
#else
using Model =
    ls::Sequential<ls::Input<784>, ls::Dense<128>, ls::Activation<ls::ReLU>, ls::Dense<10>>;
#endif

int main() { return Model::parameter_count == 0; }
