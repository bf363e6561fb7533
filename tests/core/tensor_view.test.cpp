#include "lockstep/core/tensor_view.hpp"

#include <doctest/doctest.h>

#include <array>
#include <type_traits>

#include "lockstep/core/tensor_matrix.hpp"
namespace ls = lockstep;

static_assert(ls::padded_batch(0) == 0);
static_assert(ls::padded_batch(1) == 16 && ls::padded_batch(16) == 16 &&
              ls::padded_batch(17) == 32);
static_assert(std::is_convertible_v<ls::TensorView<float>, ls::TensorView<const float>>);
static_assert(!std::is_convertible_v<ls::TensorView<const float>, ls::TensorView<float>>);
static_assert(!std::is_convertible_v<ls::TensorView<float>, ls::TensorView<const double>>);
static_assert(std::is_trivially_copyable_v<ls::TensorView<float>>);

TEST_CASE("TensorView: the samples of a feature are contiguous, features are a stride apart") {
  std::array<float, 48> memory{};
  const ls::TensorView<float> view(memory.data(), 3, 3, 16);
  view(2, 1) = 5;
  CHECK(memory[18] == 5);
  CHECK(view.feature(1) == memory.data() + 16);
  CHECK(view.matrix().rows() == 3);
  CHECK(view.matrix().cols() == 3);
  CHECK(view.matrix()(2, 1) == 5);
  view.matrix().setConstant(7);
  CHECK(memory[2] == 7);
  CHECK(memory[3] == 0);  // padding

  const ls::TensorView<const float> read_only = view;
  CHECK(read_only(0, 2) == 7);
  CHECK(read_only.matrix().sum() == 63);
}

TEST_CASE("TensorView: clear_padding leaves the samples alone") {
  std::array<double, 32> memory;
  memory.fill(1);
  const ls::TensorView<double> view(memory.data(), 5, 2, 16);
  view.clear_padding();
  CHECK(view.matrix().sum() == 10);
  for (std::size_t i = 0; i < memory.size(); ++i) CHECK(memory[i] == (i % 16 < 5 ? 1.0 : 0.0));
}

TEST_CASE("TensorView: empty, and without samples") {
  CHECK(ls::TensorView<float>().empty());
  float nothing = 0;
  const ls::TensorView<float> view(&nothing, 0, 4, 0);
  CHECK_FALSE(view.empty());
  CHECK(view.matrix().size() == 0);
  view.clear_padding();
}
