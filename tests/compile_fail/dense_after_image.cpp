// expect-error: Dense needs a flat input.*put ls::Flatten before it
// expect-nearby: 3
// expect-nearby: Shape<26, 26, 32>
#include <lockstep/layers/conv2d.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                             ls::Dense<10>>;
#else
using Model = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                             ls::Flatten, ls::Dense<10>>;
#endif

int main() { return Model::parameter_count == 0; }
