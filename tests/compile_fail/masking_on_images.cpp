// expect-error: Masking looks at the tokens of a sequence.*put ls::ToSequence before it
// expect-nearby: Shape<28, 3>
#include <lockstep/layers/masking.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/layers/rnn.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<28, 3>, ls::Masking<>, ls::ToSequence, ls::LSTM<4>>;
#else
using Model = ls::Sequential<ls::Input<28, 3>, ls::ToSequence, ls::Masking<>, ls::LSTM<4>>;
#endif

int main() { return Model::parameter_count == 0; }
