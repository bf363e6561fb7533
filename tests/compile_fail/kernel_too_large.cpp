// expect-error: Conv2D's kernel is larger than its input
// expect-nearby: 2
// expect-nearby: Shape<2, 2, 8>
#include <lockstep/layers/conv2d.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<4, 4, 1>, ls::Conv2D<8, 3, ls::ReLU>, ls::Conv2D<8, 3>,
                             ls::Flatten, ls::Dense<10>>;
#else
using Model = ls::Sequential<ls::Input<4, 4, 1>, ls::Conv2D<8, 3, ls::ReLU>, ls::Conv2D<8, 2>,
                             ls::Flatten, ls::Dense<10>>;
#endif

int main() { return Model::parameter_count == 0; }
