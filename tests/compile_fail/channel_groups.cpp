// expect-error: the groups of GroupNormalization must divide the number of its input's channels
// expect-nearby: Shape<4, 4, 6>
#include <lockstep/layers/input.hpp>
#include <lockstep/layers/layer_normalization.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<4, 4, 6>, ls::GroupNormalization<>>;
#else
using Model = ls::Sequential<ls::Input<4, 4, 6>, ls::GroupNormalization<3>>;
#endif

int main() { return Model::parameter_count == 0; }
