// expect-error: a recurrent layer needs a sequence of tokens.*put ls::Embedding or ls::ToSequence before it
// expect-nearby: 1
// expect-nearby: Shape<28, 28>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/layers/rnn.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<28, 28>, ls::LSTM<64>, ls::Dense<10>>;
#else
using Model = ls::Sequential<ls::Input<28, 28>, ls::ToSequence, ls::LSTM<64>, ls::Dense<10>>;
#endif

int main() { return Model::parameter_count == 0; }
