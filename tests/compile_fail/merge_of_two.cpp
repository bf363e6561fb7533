// expect-error: Subtract and Dot merge two branches
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/input.hpp>
#include <lockstep/network/parallel.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Difference = ls::Parallel<ls::Subtract, ls::Dense<2>, ls::Dense<2>, ls::Dense<2>>;
#else
using Difference = ls::Parallel<ls::Subtract, ls::Dense<2>, ls::Dense<2>>;
#endif

int main() { return ls::Sequential<ls::Input<4>, Difference>::parameter_count == 0; }
