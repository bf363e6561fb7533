#include "lockstep/layers/input_checks.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;

namespace {

static_assert(ls::FlatInput<0, ls::Shape<9>> && !ls::FlatInput<0, ls::Shape<3, 3>>);
static_assert(ls::ImageInput<0, ls::Shape<3, 3, 1>> && !ls::ImageInput<0, ls::Shape<9>>);
static_assert(ls::VolumeInput<0, ls::Shape<2, 3, 3, 1>> && !ls::VolumeInput<0, ls::Shape<3, 3, 1>>);
static_assert(!ls::VolumeInput<0, ls::Sequence<2, 3, 3, 1>>);
static_assert(ls::InputOfSize<0, ls::Shape<2, 6>, ls::Shape<12>> &&
              !ls::InputOfSize<0, ls::Shape<11>, ls::Shape<12>>);
static_assert(ls::InputWithRoomFor<0, ls::Shape<3, 5, 1>, ls::Shape<3, 5>>);
static_assert(!ls::InputWithRoomFor<0, ls::Shape<3, 5, 1>, ls::Shape<4, 1>>);
static_assert(!ls::InputWithRoomFor<0, ls::Shape<3, 5, 1>, ls::Shape<1, 6>>);
static_assert(!ls::InputWithRoomFor<0, ls::Shape<3, 5, 2, 1>, ls::Shape<3, 5, 3>>);

}  // namespace

TEST_CASE("input checks: by rank, size and extents") {}  // at compile time
