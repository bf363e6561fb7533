// expect-error: the boundaries of Discretization are in increasing order, none twice
#include <lockstep/layers/discretization.hpp>
#include <lockstep/layers/input.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Prices = ls::Discretization<ls::Bins{0.0, 10.0, 10.0}>;
#else
using Prices = ls::Discretization<ls::Bins{0.0, 10.0, 100.0}>;
#endif

int main() { return ls::Sequential<ls::Input<4>, Prices>::parameter_count == 1; }
