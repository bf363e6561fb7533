// expect-error: this branch of Parallel does not fit the first one: Concatenate needs
// expect-nearby: Dense<5.*Dense<4
// expect-nearby: Shape<4>
// expect-nearby: Shape<3>
// expect-error 2: Conv2D needs an input of height x width x channels
// expect-nearby 2: Shape<5>
// expect-error 3: ReLU .or Tanh.* is an activation, not a layer: write ls::Activation<ls::ReLU>
// expect-error 4: this branch of Parallel does not fit the first one
// expect-nearby 4: LSTM<3
// expect-error 5: the first parameter of Parallel is how its branches come together
// expect-error 6: no activation function; .* ls::Softmax is a layer: put it behind this one
#include <lockstep/layers/activations.hpp>
#include <lockstep/layers/conv2d.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/input.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/layers/rnn.hpp>
#include <lockstep/network/parallel.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#if LOCKSTEP_COMPILE_FAIL == 1
using Model =
    ls::Sequential<ls::Input<6>,
                   ls::Parallel<ls::Add, ls::Dense<3>, ls::Sequential<ls::Dense<5>, ls::Dense<4>>>>;
#elif LOCKSTEP_COMPILE_FAIL == 2
using Model =
    ls::Sequential<ls::Input<6>,
                   ls::Parallel<ls::Add, ls::Dense<3>,
                                ls::Sequential<ls::Dense<5>, ls::Conv2D<3, 1>, ls::Flatten>>>;
#elif LOCKSTEP_COMPILE_FAIL == 3
using Model = ls::Sequential<ls::Input<6>, ls::Parallel<ls::Add, ls::ReLU, ls::Dense<6>>>;
#elif LOCKSTEP_COMPILE_FAIL == 4
using Model = ls::Sequential<ls::Input<6, 3>, ls::ToSequence,
                             ls::Parallel<ls::Concatenate, ls::Dense<3>, ls::LSTM<3>>>;
#elif LOCKSTEP_COMPILE_FAIL == 5
using Model = ls::Sequential<ls::Input<6>, ls::Parallel<ls::Dense<3>, ls::Dense<2>>>;
#elif LOCKSTEP_COMPILE_FAIL == 6
using Model = ls::Sequential<ls::Input<6>, ls::Dense<3, ls::Softmax>>;
#else
using Model =
    ls::Sequential<ls::Input<6>,
                   ls::Parallel<ls::Add, ls::Dense<3>, ls::Sequential<ls::Dense<5>, ls::Dense<3>>>>;
#endif

int main() { return Model::parameter_count == 0; }
