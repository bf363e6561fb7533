#include "lockstep/network/layer_place.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

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
  CHECK(lsd::container_temporary(layers, 5) == 2 * 6 * 16 + 40);
}

TEST_CASE("TensorSize: the tokens of a batch are padded once") {
  constexpr lsd::TensorSize size{.features = 2, .positions = 7};
  CHECK(size.stride(3) == 32);  // 21 rows
  CHECK(size.elements(3) == 64);
}
