// expect-error: ConvLSTM2D needs a sequence of images.*put ls::ToSequence before it
// expect-nearby: 1
// expect-nearby: Shape<5, 8, 8, 1>
#include <lockstep/layers/conv_lstm2d.hpp>
#include <lockstep/layers/input.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<5, 8, 8, 1>, ls::ConvLSTM2D<4, 3>, ls::Flatten>;
#else
using Model =
    ls::Sequential<ls::Input<5, 8, 8, 1>, ls::ToSequence, ls::ConvLSTM2D<4, 3>, ls::Flatten>;
#endif

int main() { return Model::parameter_count == 0; }
