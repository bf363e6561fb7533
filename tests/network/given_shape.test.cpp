#include "lockstep/network/given_shape.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

#include "lockstep/layers/attention.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/reshaping.hpp"

namespace ls = lockstep;
namespace lsd = lockstep::detail;

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
