// expect-error: MixedFloat16 computes on the processor: leave out On, or the policy
#include <lockstep/extra/cuda.hpp>
#include <lockstep/network/mixed_precision.hpp>

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<4>, ls::Dense<8>>;
#ifdef LOCKSTEP_COMPILE_FAIL
using Placed = ls::On<ls::Cuda, Net>;
#else
using Placed = Net;
#endif

int main() { return sizeof(ls::MixedFloat16::Network<Placed>) == 0; }
