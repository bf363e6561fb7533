// expect-error: both branches of Attention and AdditiveAttention must give a sequence of flat tokens
// expect-nearby: Sequence<4, 3>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/input.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/cross_attention.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Net =
    ls::Sequential<ls::Input<4, 3>, ls::ToSequence, ls::Attention<ls::Dense<2>, ls::Identity>>;
#else
using Net =
    ls::Sequential<ls::Input<4, 3>, ls::ToSequence, ls::Attention<ls::Dense<3>, ls::Identity>>;
#endif

int main() { return Net::parameter_count == 0; }
