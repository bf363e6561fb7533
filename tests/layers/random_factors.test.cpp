#include "lockstep/layers/random_factors.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/random_array.hpp"

namespace ls = lockstep;
using lockstep_test::Array;

TEST_CASE("random factors: a row's depend on its sample alone, and each purpose has its own") {
  constexpr std::size_t features = 50, rows = 20, stride = 32;
  std::vector<std::int64_t> indices(rows);
  std::iota(indices.begin(), indices.end(), std::int64_t{100});
  ls::StepContext context{.training = true, .sample_indices = indices};
  const Array<float> first(features * stride, 7.0F), other(features * stride, 7.0F),
      second(features * stride, 7.0F);
  ls::detail::draw_mask<float>(context, rows, 0.25, features, stride, first.data());
  ls::detail::draw_mask<float>(context, rows, 0.25, features, stride, other.data(), 1);
  std::reverse(indices.begin(), indices.end());
  ls::detail::draw_mask<float>(context, rows, 0.25, features, stride, second.data());
  std::size_t dropped = 0, same = 0, wrong = 0;
  for (std::size_t f = 0; f < features; ++f)
    for (std::size_t row = 0; row < rows; ++row) {
      const float factor = first[f * stride + row];
      dropped += factor == 0;
      wrong += factor != 0 && factor != static_cast<float>(1 / 0.75);
      wrong += factor != second[f * stride + rows - 1 - row];
      same += factor == other[f * stride + row];
    }
  CHECK(wrong == 0);
  CHECK(dropped > 180);
  CHECK(dropped < 320);
  CHECK(same < 900);
}
