// Number: a floating-point number as a template argument.
#pragma once

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// (A class, because clang++ 14 takes no bare floating-point number there.)
struct Number {
  double value = 0;
  constexpr Number(double number) : value(number) {}
};

}}  // namespace lockstep
