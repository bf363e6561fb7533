// expect-error: CTC needs a model whose output is Shape<steps, classes>, scores of all classes
// expect-nearby: Flatten and Reshape<steps, classes>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/losses/ctc.hpp>
#include <lockstep/model/model.hpp>
#include <lockstep/network/sequential.hpp>
#include <lockstep/optimizers/sgd.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Net = ls::Sequential<ls::Input<6, 3>, ls::ToSequence, ls::Dense<4>>;
#else
using Net =
    ls::Sequential<ls::Input<6, 3>, ls::ToSequence, ls::Dense<4>, ls::Flatten, ls::Reshape<6, 4>>;
#endif

int main() { (void)ls::compile<Net>({.seed = 1}, ls::CTC{}, ls::SGD{}); }
