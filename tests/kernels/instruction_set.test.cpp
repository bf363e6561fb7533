#include "lockstep/kernels/instruction_set.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/error.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace kernels = lockstep::kernels;

TEST_CASE("instruction sets: names") {
  for (const ls::InstructionSet level :
       {ls::InstructionSet::baseline, ls::InstructionSet::avx2, ls::InstructionSet::avx512,
        ls::InstructionSet::avx512_bf16})
    CHECK(kernels::parse_instruction_set(ls::to_string(level), "here") == level);
  CHECK_THROWS_WITH_AS(
      (void)kernels::parse_instruction_set("sse9", "the environment variable LOCKSTEP_MAX_ISA"),
      "the environment variable LOCKSTEP_MAX_ISA is 'sse9', which is no instruction set; use "
      "baseline, avx2, avx512 or avx512_bf16",
      ls::ConfigurationError);
}

TEST_CASE("instruction sets: the highest of this machine can be set, and lower ones") {
  const ls::InstructionSet before = kernels::instruction_set();
  CHECK(before <= kernels::supported_instruction_set());
  lockstep_test::for_each_instruction_set(
      [] { CHECK(kernels::instruction_set() <= kernels::supported_instruction_set()); });
  kernels::set_instruction_set(kernels::supported_instruction_set());
  CHECK(kernels::instruction_set() == kernels::supported_instruction_set());
  kernels::set_instruction_set(ls::InstructionSet::baseline);
  CHECK(kernels::instruction_set() == ls::InstructionSet::baseline);
  kernels::set_instruction_set(before);
}

TEST_CASE("instruction sets: one above the machine's is refused, and the one in force stays") {
  const ls::InstructionSet before = kernels::instruction_set();
  const auto above =
      static_cast<ls::InstructionSet>(static_cast<int>(kernels::supported_instruction_set()) + 1);
  CHECK_THROWS_AS(kernels::set_instruction_set(above), ls::ConfigurationError);
  CHECK(kernels::instruction_set() == before);
}
