#include "lockstep/network/layer_place.hpp"
#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/reshaping.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

namespace lsd = lockstep::detail;

TEST_CASE(
    "LayerPlace: a container keeps the outputs between layers, and has two gradients and the "
    "memory "
    "of one layer while it runs") {
  // 4 -> 6 -> 3 features; 5 samples are padded to 16.
  const std::array<lsd::LayerPlace, 2> layers{
      lsd::LayerPlace{.input = {.features = 4},
                      .output = {.features = 6},
                      .temporary = [](std::size_t samples) { return samples * 7; }},
      lsd::LayerPlace{.input = {.features = 6},
                      .output = {.features = 3},
                      .scratch = [](std::size_t samples) { return samples * 2; },
                      .temporary = [](std::size_t samples) { return samples * 8; }}};
  CHECK(lsd::kept_elements(layers, 5) == 6 * 16);
  CHECK(lsd::gradient_elements(layers, 5) == 6 * 16);
  CHECK(lsd::container_scratch(layers, 5) == 6 * 16 + 10);
  CHECK(lsd::container_temporary(layers, 5) == 6 * 16 + 40);
}

TEST_CASE("LayerPlace: outputs that are packed lie in turn, and forward's where gradients do") {
  constexpr lsd::KeptFormat format{};
  // 4 -> 6 -> 3 -> 5 features; 5 samples are padded to 16.
  std::array<lsd::LayerPlace, 3> layers{
      lsd::LayerPlace{
          .input = {.features = 4}, .output = {.features = 6}, .kept = &format, .reads_y = false},
      lsd::LayerPlace{
          .input = {.features = 6}, .output = {.features = 3}, .kept = &format, .reads_y = false},
      lsd::LayerPlace{.input = {.features = 3}, .output = {.features = 5}, .kept = &format}};
  CHECK(lsd::kept_elements(layers, 5) == 3 * 16 + 32);
  CHECK(lsd::gradient_elements(layers, 5) == (6 + 3) * 16);
  CHECK(lsd::unpacked_elements(layers, 5, true) == (6 + 3) * 16);
  CHECK(lsd::unpacked_elements(layers, 5, false) == 6 * 16);
  CHECK(lsd::first_temporary(layers, 5) == (6 + 3 + 6) * 16);
  layers[1].reads_y = true;
  CHECK(lsd::unpacked_elements(layers, 5, false) == (6 + 3) * 16);
  layers[0].throws_gradient = true;
  CHECK(lsd::gradient_elements(layers, 5) == (4 + 6) * 16);
  CHECK(lsd::gradient_elements(std::span(layers).subspan(2), 5) == 0);
  CHECK(lsd::first_temporary(std::span(layers).subspan(1, 2), 5) == (3 + 3) * 16);
  float memory[10];
  const lsd::InTurn<float> places{memory, 10};
  CHECK(places.at(4, 3) == memory);
  CHECK(places.at(5, 3) == memory + 7);
}

TEST_CASE("TensorSize: the tokens of a batch are padded once") {
  constexpr lsd::TensorSize size{.features = 2, .positions = 7};
  CHECK(size.stride(3) == 32);  // 21 rows
  CHECK(size.elements(3) == 64);
}

namespace ls = lockstep;

using Tokens = ls::Sequence<7, 4>;

// A layer that knows of positions sees the sequence, any other one its tokens.
static_assert(std::is_same_v<lsd::Given<ls::Dense<3>, Tokens>::Type, ls::Shape<4>>);
static_assert(lsd::Given<ls::Dense<3>, Tokens>::positions == 7);
static_assert(std::is_same_v<lsd::Given<ls::MultiHeadAttention<2, 4>, Tokens>::Type, Tokens>);
static_assert(lsd::Given<ls::MultiHeadAttention<2, 4>, Tokens>::positions == 1);
static_assert(std::is_same_v<lsd::OutputShape<ls::Dense<3>, Tokens>::Type, ls::Sequence<7, 3>>);
static_assert(lsd::aliases_input<ls::Flatten, ls::Shape<2, 2>>);

TEST_CASE("memory that a layer asks for: by rows, padded, or by samples") {
  // 5 samples of 7 tokens are 35 rows, padded to 48.
  CHECK(lsd::size_given<ls::Dense<3>, Tokens>(5) == 48);
  CHECK(lsd::size_given<ls::MultiHeadAttention<2, 4>, Tokens>(5) == 5);
  CHECK(lsd::temporary_of<ls::Dense<3>, Tokens>(5) ==
        lsd::temporary_of<ls::Dense<3>, ls::Shape<4>>(35));
  CHECK(lsd::temporary_of<ls::Dense<3>, Tokens>(5) >= 3 * 35);
  CHECK(lsd::temporary_of<ls::MultiHeadAttention<2, 4>, Tokens>(5) % 16 == 0);
  CHECK(lsd::scratch_of<ls::MultiHeadAttention<2, 4>, Tokens>(5) >= 4 * 8 * 35);  // q, k, v, o
}
