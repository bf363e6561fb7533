#include "lockstep/data/image_shape.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/error.hpp"

namespace ls = lockstep;

TEST_CASE("ImageShape: its size, and samples of another one") {
  constexpr ls::ImageShape image{32, 32, 3};
  static_assert(image.size() == 3072);
  CHECK(image.to_string() == "32 x 32 x 3");
  ls::detail::require_image("Any", image, 3072);
  CHECK_THROWS_WITH_AS(ls::detail::require_image("Any", image, 784),
                       "Any: expected images of 32 x 32 x 3, got a sample of 784 elements",
                       ls::DataError);
}
