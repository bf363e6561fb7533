#include "lockstep/kernels/product_layout.hpp"

#include <doctest/doctest.h>

namespace kernels = lockstep::kernels;

TEST_CASE("product layout: columns in panels, padded to 16") {
  constexpr kernels::Panels whole{.step = 130}, panels{.step = 64, .panel = 1000};
  CHECK(whole.offset(129) == 129);
  CHECK(panels.offset(63) == 63);
  CHECK(panels.offset(64) == 1000);
  CHECK(panels.offset(130) == 2002);
  CHECK(kernels::padded_columns(0) == 0);
  CHECK(kernels::padded_columns(17) == 32);
}
