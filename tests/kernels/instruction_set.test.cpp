#include "lockstep/kernels/instruction_set.hpp"

#include <doctest/doctest.h>

#include "lockstep/kernels/dispatch.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace kernels = lockstep::kernels;

TEST_CASE("instruction sets: names") {
  for (const ls::InstructionSet level :
       {ls::InstructionSet::baseline, ls::InstructionSet::avx2, ls::InstructionSet::avx512})
    CHECK(kernels::parse_instruction_set(ls::to_string(level), "here") == level);
  CHECK_THROWS_WITH_AS(
      (void)kernels::parse_instruction_set("sse9", "the environment variable LOCKSTEP_MAX_ISA"),
      "the environment variable LOCKSTEP_MAX_ISA is 'sse9', which is no instruction set; use baseline, avx2 "
      "or avx512",
      ls::ConfigurationError);
}

TEST_CASE("instruction sets: dispatch runs the one in force") {
  lockstep_test::for_each_instruction_set([] {
    const ls::InstructionSet level = kernels::dispatch([]<class Isa>() LOCKSTEP_KERNEL_LAMBDA { return Isa::level; });
    CHECK(level == kernels::instruction_set());
  });
}

TEST_CASE("instruction sets: one that the machine does not have is refused") {
  if (kernels::supported_instruction_set() == ls::InstructionSet::avx512) return;
  CHECK_THROWS_AS(kernels::set_instruction_set(ls::InstructionSet::avx512), ls::ConfigurationError);
}
