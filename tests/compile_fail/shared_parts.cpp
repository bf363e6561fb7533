// expect-error: the parts of Shared must have outputs of one shape, which is the input of its layer
// expect-nearby: Shape<3>
// expect-nearby: Shape<2>
// expect-error 2: the layer of Shared must compute something by itself
// expect-error 3: the first parameter of Parallel is how its branches come together
// expect-error 4: Shared needs a merge .ls::Concatenate, ls::Multiply, ...., a layer, and 1 to 16 parts
#include <lockstep/layers/activations.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/input.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>
#include <lockstep/network/shared.hpp>

namespace ls = lockstep;

#if LOCKSTEP_COMPILE_FAIL == 1
using Tower = ls::Shared<ls::Add, ls::Dense<4>, ls::Slice<0, 3>, ls::Slice<3, 2>>;
#elif LOCKSTEP_COMPILE_FAIL == 2
using Tower = ls::Shared<ls::Add, ls::Activation<ls::ReLU>, ls::Dense<4>, ls::Dense<4>>;
#elif LOCKSTEP_COMPILE_FAIL == 3
using Tower = ls::Shared<ls::Dense<4>, ls::Dense<4>, ls::Slice<0, 3>, ls::Slice<3, 3>>;
#elif LOCKSTEP_COMPILE_FAIL == 4
using Tower = ls::Shared<ls::Add, ls::Dense<4>>;
#else
using Tower = ls::Shared<ls::Add, ls::Dense<4>, ls::Slice<0, 3>, ls::Slice<3, 3>>;
#endif

using Model = ls::Sequential<ls::Input<6>, Tower>;

int main() { return Model::parameter_count == 0; }
