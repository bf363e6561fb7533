// expect-error: Reshape must keep the number of elements
// expect-nearby: 1
// expect-nearby: Shape<28, 28>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 3>, ls::Flatten, ls::Dense<10>>;
#else
using Model = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Flatten, ls::Dense<10>>;
#endif

int main() { return Model::parameter_count == 0; }
