// expect-error: Conv3D needs an input of depth x height x width x channels.*put ls::Reshape<depth, height, width, channels> before it
// expect-nearby: 1
// expect-nearby: Shape<8, 8, 3>
#include <lockstep/layers/conv3d.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<8, 8, 3>, ls::Conv3D<4, 3>, ls::Flatten, ls::Dense<10>>;
#else
using Model = ls::Sequential<ls::Input<8, 8, 3>, ls::Reshape<8, 8, 3, 1>, ls::Conv3D<4, 3>,
                             ls::Flatten, ls::Dense<10>>;
#endif

int main() { return Model::parameter_count == 0; }
