// expect-error: Conv2D needs an input of height x width x channels.*put ls::Reshape<height, width, channels> before it
// expect-nearby: 1
// expect-nearby: Shape<784>
#include <lockstep/layers/conv2d.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<784>, ls::Conv2D<32, 3>, ls::Flatten, ls::Dense<10>>;
#else
using Model = ls::Sequential<ls::Input<784>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3>, ls::Flatten,
                             ls::Dense<10>>;
#endif

int main() { return Model::parameter_count == 0; }
