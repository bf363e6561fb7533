// expect-error: a recurrent layer needs an activation function whose derivative can be told from its value
// expect-error 2: ONNX's recurrent operators do not have this activation function
#include <lockstep/extra/onnx/export_onnx.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/layers/rnn.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

#if LOCKSTEP_COMPILE_FAIL == 1
using Layer = ls::LSTM<4, ls::LSTMOptions{}, ls::GELU>;
#elif LOCKSTEP_COMPILE_FAIL == 2
using Layer = ls::LSTM<4, ls::LSTMOptions{}, ls::SELU>;
#else
using Layer = ls::LSTM<4, ls::LSTMOptions{}, ls::ReLU>;
#endif
using Model = ls::Sequential<ls::Input<6, 2>, ls::ToSequence, Layer, ls::Dense<4>>;

static_assert(Model::parameter_count > 0);

int main() {
  ls::detail::OnnxGraph graph(ls::detail::ExportedVariables{});
  ls::detail::OnnxOperator<Model>::write<Model::InputShape>(graph);
}
