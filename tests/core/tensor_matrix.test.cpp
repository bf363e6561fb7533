#include "lockstep/core/tensor_matrix.hpp"

#include <doctest/doctest.h>

#include <array>
#include <type_traits>

namespace ls = lockstep;

TEST_CASE("TensorView::matrix: the samples without padding, as they lie in memory") {
  alignas(64) std::array<float, 32> memory{};
  const ls::TensorView<float> view(memory.data(), 3, 2, 16);
  view.matrix()(2, 1) = 5;
  CHECK(memory[16 + 2] == 5);
  CHECK(view.matrix().rows() == 3);
  CHECK(view.matrix().cols() == 2);
  const ls::TensorView<const float> fixed = view;
  CHECK(fixed.matrix().sum() == 5);
  static_assert(!std::is_assignable_v<decltype(fixed.matrix()(0, 0)), float>);
}
