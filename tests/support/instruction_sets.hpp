// Forces each instruction set of this machine in turn.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>

#include "lockstep/kernels/instruction_set.hpp"

namespace lockstep_test {

namespace detail {

/// Calls f() under those that this machine has; puts back the one that was in force.
template <class F>
void for_each_of(std::initializer_list<lockstep::InstructionSet> levels, const F& f) {
  using lockstep::InstructionSet;
  struct Restore {
    InstructionSet level = lockstep::kernels::instruction_set();
    ~Restore() { lockstep::kernels::set_instruction_set(level); }
  } restore;
  for (const InstructionSet level : levels) {
    if (level > lockstep::kernels::supported_instruction_set()) continue;
    lockstep::kernels::set_instruction_set(level);
    CAPTURE(lockstep::to_string(level));
    f();
  }
}

}  // namespace detail

/// Calls f() under every instruction set of this machine whose kernels differ, but for products of
/// bfloat16; puts back the one that was in force.
template <class F>
void for_each_instruction_set(const F& f) {
  using lockstep::InstructionSet;
  detail::for_each_of({InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}, f);
}

/// The same for all of them.
template <class F>
void for_each_bfloat16_instruction_set(const F& f) {
  using lockstep::InstructionSet;
  detail::for_each_of({InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512,
                       InstructionSet::avx512_bf16},
                      f);
}

}  // namespace lockstep_test
