// expect-error: export_onnx knows no ONNX operator for this layer
// expect-error 2: export_onnx knows no ONNX operator for this activation function
#include <lockstep/extra/onnx/export_onnx.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/reshaping.hpp>
#include <lockstep/network/sequential.hpp>

namespace ls = lockstep;

/// A layer of the user's own.
struct Own {
  static constexpr std::string_view name = "own";
  template <class In>
  using Output = In;
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>&) {}
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>&) {}
};
/// And a function.
struct OwnFunction : ls::ReLU {};

#if LOCKSTEP_COMPILE_FAIL == 1
using Model = ls::Sequential<ls::Input<6>, ls::Dense<4>, Own>;
#elif LOCKSTEP_COMPILE_FAIL == 2
using Model = ls::Sequential<ls::Input<6>, ls::Dense<4, OwnFunction>>;
#else
using Model = ls::Sequential<ls::Input<6>, ls::Dense<4, ls::ReLU>>;
#endif

int main() {
  ls::detail::OnnxGraph graph(ls::detail::ExportedVariables{});
  ls::detail::OnnxOperator<Model>::write<Model::InputShape>(graph);
}
