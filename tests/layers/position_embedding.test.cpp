#include "lockstep/layers/position_embedding.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "golden/attention.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_sequences.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using ls::PositionEmbedding;
using ls::Sequence;

TEST_CASE("PositionEmbedding: gradients") {
  const auto& variables = PositionEmbedding<9>::variables<Sequence<5, 3>>;
  CHECK(variables[0].name == "embeddings");
  CHECK(variables[0].size() == 27);
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<PositionEmbedding<5>, Sequence<5, 3>>();
    lockstep_test::check_gradients<PositionEmbedding<20>, Sequence<17, 2>>(3);
  });
}

TEST_CASE("PositionEmbedding: PyTorch's values and gradients") {
  using golden = lockstep_test::golden::embedding_and_positions;
  double x[36];  // the rows of the token table
  for (std::size_t i = 0; i < 36; ++i)
    x[i] = golden::token[static_cast<std::size_t>(golden::x[i / 3]) * 3 + i % 3];
  lockstep_test::check_golden_sequences<PositionEmbedding<5>, Sequence<4, 3>>(
      {3, x, golden::y, golden::dy, golden::dy, {{golden::position, golden::position_gradient}}});
}
