#include "lockstep/layers/window.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;
using ls::Padding, ls::Sequence, ls::detail::SequenceWindows;

TEST_CASE("window: positions and padding, TensorFlow's rule") {
  using ls::Padding, ls::window_outputs, ls::window_padding;
  CHECK(window_outputs(28, 3, 1, Padding::valid) == 26);
  CHECK(window_outputs(28, 3, 1, Padding::same) == 28);
  CHECK(window_outputs(7, 3, 2, Padding::valid) == 3);
  CHECK(window_outputs(7, 3, 2, Padding::same) == 4);
  CHECK(window_padding(7, 3, 2, Padding::valid) == 0);
  CHECK(window_padding(7, 3, 2, Padding::same) == 1);
  CHECK(window_padding(8, 3, 2, Padding::same) == 0);  // one column in all: after the image
  CHECK(window_padding(5, 1, 4, Padding::same) == 0);
}

TEST_CASE("window: an extent for both dimensions, or for each") {
  constexpr ls::Extent2D both = 3, each{3, 5};
  static_assert(both == ls::Extent2D{3, 3} && each.width == 5 && ls::Extent2D{} == ls::Extent2D{1});
  constexpr ls::Extent3D cube = 2, box{3, 4, 5};
  static_assert(cube == ls::Extent3D{2, 2, 2} && box.plane() == ls::Extent2D{4, 5});
  static_assert(box.size() == 60 && ls::dilated(box, {1, 2, 3}) == ls::Extent3D{3, 7, 13});
}

namespace {

using In = Sequence<11, 4>;
static_assert(SequenceWindows<4, 2, Padding::valid>::outputs<In> == 4);
static_assert(SequenceWindows<4, 2, Padding::same>::outputs<In> == 6);
static_assert(SequenceWindows<4, 2, Padding::same>::pad<In> == 1);
static_assert(SequenceWindows<5, 2, Padding::causal>::outputs<In> == 6);
static_assert(SequenceWindows<5, 2, Padding::causal>::pad<In> == 4);
static_assert(SequenceWindows<11, 1, Padding::valid>::fits<In> &&
              !SequenceWindows<12, 1, Padding::valid>::fits<In>);

}  // namespace

TEST_CASE(
    "sequence windows: a window that does not fit has one place, so that the message is about it") {
  CHECK(SequenceWindows<12, 1, Padding::valid>::outputs<In> == 1);
}
