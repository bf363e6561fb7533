// expect-error: the pool of a pooling layer is larger than its input
// expect-nearby: 2
// expect-nearby: Shape<2, 2, 8>
#include <lockstep/layers/conv2d.hpp>
#include <lockstep/layers/pooling.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<4, 4, 1>, ls::Conv2D<8, 3, ls::ReLU>, ls::MaxPooling2D<3>,
                             ls::Flatten>;
#else
using Model = ls::Sequential<ls::Input<4, 4, 1>, ls::Conv2D<8, 3, ls::ReLU>, ls::MaxPooling2D<2>,
                             ls::Flatten>;
#endif

int main() { return Model::parameter_count == 0; }
