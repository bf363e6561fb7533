#include "mine.hpp"

#include <lockstep/kernels/instruction_set.hpp>

const char* mine() {
  return lockstep::kernels::instruction_set() == lockstep::InstructionSet::baseline ? "baseline"
                                                                                    : "vectors";
}
