// Where a layer puts the tokens of a sequence.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>

#include "lockstep/core/shape.hpp"
#include "support/layer_rig.hpp"

namespace lockstep_test {

/// Token t of the output for a sequence of 5 is token source(t) of the input; -1: zeros.
template <class L, class Source>
void check_tokens(const Source& source) {
  LayerRig<L, lockstep::Sequence<5, 2>, float> rig(3);
  rig.forward();
  for (std::size_t f = 0; f < 2; ++f)
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t t = 0; t < rig.out_size.positions; ++t) {
        const int from = source(static_cast<int>(t));
        const float expected =
            from < 0 ? 0 : rig.x[f * rig.stride + s * 5 + static_cast<std::size_t>(from)];
        CHECK(rig.y[f * rig.out_stride + s * rig.out_size.positions + t] == expected);
      }
}

}  // namespace lockstep_test
