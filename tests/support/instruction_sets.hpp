// Forces each instruction set of this machine in turn.
#pragma once

#include <doctest/doctest.h>

#include "lockstep/kernels/instruction_set.hpp"

namespace lockstep_test {

/// Calls f() under every instruction set that this machine has; puts back the one that was in
/// force.
template <class F>
void for_each_instruction_set(const F& f) {
  using lockstep::InstructionSet;
  struct Restore {
    InstructionSet level = lockstep::kernels::instruction_set();
    ~Restore() { lockstep::kernels::set_instruction_set(level); }
  } restore;
  for (const InstructionSet level :
       {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (level > lockstep::kernels::supported_instruction_set()) continue;
    lockstep::kernels::set_instruction_set(level);
    CAPTURE(lockstep::to_string(level));
    f();
  }
}

}  // namespace lockstep_test
