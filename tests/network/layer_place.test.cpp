#include "lockstep/network/layer_place.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

namespace lsd = lockstep::detail;

TEST_CASE("LayerPlace: a container keeps the outputs between layers, and two gradients") {
  // 4 -> 6 -> 3 features; 5 samples are padded to 16.
  const std::array<lsd::LayerPlace, 2> layers{
      lsd::LayerPlace{.input = {.features = 4}, .output = {.features = 6}},
      lsd::LayerPlace{.input = {.features = 6},
                      .output = {.features = 3},
                      .scratch = [](std::size_t samples) { return samples * 2; }}};
  CHECK(lsd::kept_elements(layers, 5) == 6 * 16);
  CHECK(lsd::gradient_elements(layers, 5) == 6 * 16);
  CHECK(lsd::first_scratch(layers, 5) == 3 * 6 * 16);
  CHECK(lsd::container_scratch(layers, 5) == 3 * 6 * 16 + 10);
}

TEST_CASE("TensorSize: the tokens of a batch are padded once") {
  constexpr lsd::TensorSize size{.features = 2, .positions = 7};
  CHECK(size.stride(3) == 32);  // 21 rows
  CHECK(size.elements(3) == 64);
}
