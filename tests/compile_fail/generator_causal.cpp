// expect-error: this layer sees later ones: an attention needs .use_causal_mask = true
// expect-nearby: MultiHeadAttention
#include <lockstep/layers/attention.hpp>
#include <lockstep/layers/dense.hpp>
#include <lockstep/layers/embedding.hpp>
#include <lockstep/network/parallel.hpp>
#include <lockstep/network/repeat.hpp>
#include <lockstep/network/sequential.hpp>
#include <lockstep/saving/generator.hpp>

namespace ls = lockstep;

#ifdef LOCKSTEP_COMPILE_FAIL
constexpr ls::MultiHeadAttentionOptions options{};
#else
constexpr ls::MultiHeadAttentionOptions options{.use_causal_mask = true};
#endif
using Model = ls::Sequential<ls::Input<16>, ls::Embedding<10, 8>,
                             ls::Repeat<2, ls::Residual<ls::MultiHeadAttention<2, 4, options>>>,
                             ls::Dense<10>>;

int main() {
  const ls::Generator<Model> generator("weights.safetensors");
  return static_cast<int>(generator.generate(std::vector<std::uint32_t>{1}).size());
}
