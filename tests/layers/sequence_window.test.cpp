#include "lockstep/layers/sequence_window.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;
using ls::Padding, ls::Sequence, ls::detail::SequenceWindows;

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
