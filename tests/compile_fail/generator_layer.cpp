// expect-error: Generator cannot give this layer a text token by token
// expect-nearby: Conv1D
#include <lockstep/layers/conv1d.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/embedding.hpp>
#include <lockstep/network/parallel.hpp>
#include <lockstep/network/sequential.hpp>
#include <lockstep/saving/generator.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Mixing = ls::Conv1D<8, 3, ls::Linear, ls::Conv1DOptions{.padding = ls::Padding::same}>;
#else
using Mixing = ls::Dense<8>;
#endif
using Model =
    ls::Sequential<ls::Input<16>, ls::Embedding<10, 8>, ls::Residual<Mixing>, ls::Dense<10>>;

int main() {
  const ls::Generator<Model> generator("weights.safetensors");
  return static_cast<int>(generator.generate(std::vector<std::uint32_t>{1}).size());
}
