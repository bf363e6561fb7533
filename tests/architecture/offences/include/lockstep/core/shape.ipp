#pragma once

#include "lockstep/core/shape.hpp"

LOCKSTEP_INLINE int calls() {
  static int count = 0;
  return ++count;
}
