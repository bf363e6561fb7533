#include "lockstep/core/moment_sink.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;

TEST_CASE("MomentSink: hands moments on; without a function it is false") {
  static_assert(!ls::MomentSink{});
  double count = 0;
  const ls::MomentSink sink(&count, [](void* self, const ls::InputMoments& moments) {
    *static_cast<double*>(self) += moments.count;
  });
  REQUIRE(static_cast<bool>(sink));
  sink({.count = 3});
  sink({.count = 4});
  CHECK(count == 7);
}
