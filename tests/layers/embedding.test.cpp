#include "lockstep/layers/embedding.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>

#include "golden/attention.hpp"
#include "lockstep/core/error.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_sequences.hpp"
#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"

namespace ls = lockstep;
using lockstep_test::LayerRig;
using ls::Embedding;
using ls::EmbeddingOptions;
using ls::PositionEmbedding;
using ls::Sequence;
using ls::Shape;

TEST_CASE("Embedding: variables and shape") {
  using L = Embedding<65, 128>;
  static_assert(std::is_same_v<L::Output<Shape<64>>, ls::Sequence<64, 128>>);
  const auto& variables = L::variables<Shape<64>>;
  REQUIRE(variables.size() == 1);
  CHECK(variables[0].name == "embeddings");
  CHECK(variables[0].size() == 65 * 128);
}

TEST_CASE("Embedding: PyTorch's gradients, and rows of the table") {
  using golden = lockstep_test::golden::embedding_and_positions;
  using L = Embedding<7, 3>;
  lockstep_test::for_each_instruction_set([] {
    LayerRig<L, Shape<4>, float> rig(3);
    for (std::size_t i = 0; i < 12; ++i)
      rig.x[i % 4 * rig.stride + i / 4] = static_cast<float>(golden::x[i]);
    for (std::size_t i = 0; i < 21; ++i) rig.weights[0][i] = static_cast<float>(golden::token[i]);
    using Out = ls::Sequence<4, 3>;
    for (std::size_t i = 0; i < 36; ++i)
      rig.dy[lockstep_test::place_in_rows<Out>(i, rig.out_stride)] =
          static_cast<float>(golden::dy[i]);
    rig.forward();
    rig.backward();
    for (std::size_t i = 0; i < 36; ++i) {
      const auto id = static_cast<std::size_t>(golden::x[i / 3]);
      CHECK(rig.y[lockstep_test::place_in_rows<Out>(i, rig.out_stride)] ==
            rig.weights[0][id * 3 + i % 3]);
    }
    CHECK(lockstep_test::worst_error<Shape<1>>(golden::token_gradient, rig.gradients[0], 1) < 1e-6);
    CHECK(std::all_of(rig.dx.begin(), rig.dx.end(), [](float v) { return v == 0; }));
    CHECK(rig.mask_of_y == nullptr);
  });
}

TEST_CASE("Embedding: no sample") {
  LayerRig<Embedding<7, 3>, Shape<4>, float> rig(0);
  rig.forward();
  rig.backward();
  CHECK(std::all_of(rig.gradients[0].begin(), rig.gradients[0].end(),
                    [](float v) { return v == 0; }));
}

TEST_CASE("Embedding: mask_zero") {
  LayerRig<Embedding<7, 3, EmbeddingOptions{.mask_zero = true}>, Shape<2>, double> rig(2);
  for (double& value : rig.x) value = 5;
  rig.x[1] = 0;
  rig.forward();
  REQUIRE(rig.mask_of_y != nullptr);
  CHECK(std::equal(rig.mask_of_y, rig.mask_of_y + 4, std::begin({1.0, 1.0, 0.0, 1.0})));
}

TEST_CASE("Embedding: ids that are none") {
  for (const float id : {7.0F, -1.0F, 2.5F, NAN}) {
    LayerRig<Embedding<7, 3>, Shape<4>, float> rig(3);
    for (float& value : rig.x) value = 6;
    rig.x[2 * rig.stride + 1] = id;
    std::string message;
    try {
      rig.forward();
    } catch (const ls::BadSample& bad) {
      message = bad.of_sample("sample 41").what();
      CHECK(bad.row() == 1);
    }
    CHECK(message.find("Embedding: the id at position 2 of sample 41 is ") == 0);
    CHECK(message.find("; expected a whole number from 0 to 6") != std::string::npos);
  }
}

TEST_CASE("Embedding: penalties and constraints go to its variables") {
  using L = lockstep::Embedding<
      9, 4, lockstep::EmbeddingOptions{.embeddings_constraint = lockstep::UnitNorm{.axis = 1}}>;
  using In = lockstep::Shape<5>;
  CHECK((L::variables<In>[0].constraint == lockstep::UnitNorm{.axis = 1}));
}

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
