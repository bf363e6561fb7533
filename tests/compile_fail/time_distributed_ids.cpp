// expect-error: TimeDistributed needs an input whose first dimension is time
// expect-nearby: 1
// expect-nearby: Shape<20>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/input.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>
#include <lockstep/network/time_distributed.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<20>, ls::TimeDistributed<ls::Dense<3>>, ls::Flatten>;
#else
using Model = ls::Sequential<ls::Input<4, 5>, ls::TimeDistributed<ls::Dense<3>>, ls::Flatten>;
#endif

int main() { return Model::parameter_count == 0; }
