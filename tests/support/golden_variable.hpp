// A variable of a layer as another library has it.
#pragma once

#include <span>

namespace lockstep_test {

using Golden = std::span<const double>;

struct GoldenVariable {
  Golden value;
  Golden gradient;
};

}  // namespace lockstep_test
