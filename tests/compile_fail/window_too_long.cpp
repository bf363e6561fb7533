// expect-error: the window of a 1-D convolution or pooling is longer than its input
// expect-nearby: 2
// expect-nearby: Sequence<4, 2>
#include <lockstep/layers/conv1d.hpp>
#include <lockstep/layers/pooling1d.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model =
    ls::Sequential<ls::Input<4, 2>, ls::ToSequence, ls::Conv1D<8, 5>, ls::GlobalAveragePooling1D>;
#else
using Model =
    ls::Sequential<ls::Input<4, 2>, ls::ToSequence, ls::Conv1D<8, 4>, ls::GlobalAveragePooling1D>;
#endif

int main() { return Model::parameter_count == 0; }
