// expect-error: Int8Weights rounds kernels of Dense and of attention with at least 32 inputs and tables of Embedding of that width, and this network has none
#include <lockstep/layers/dense.hpp>
#include <lockstep/network/sequential.hpp>
#include <lockstep/saving/int8_weights.hpp>
#include <lockstep/saving/predictor.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
using Model = ls::Sequential<ls::Input<20>, ls::Dense<10>>;
#else
using Model = ls::Sequential<ls::Input<40>, ls::Dense<10>>;
#endif

int main() {
  const ls::Predictor<Model, ls::Int8Weights> net("weights.safetensors");
  return static_cast<int>(net.predict_row(std::vector<float>(Model::InputShape::size)).size());
}
