#include "lockstep/kernels/dispatch.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace kernels = lockstep::kernels;

TEST_CASE("dispatch: runs the instruction set in force, with its vectors") {
  lockstep_test::for_each_instruction_set([] {
    const ls::InstructionSet level =
        kernels::dispatch([]<class Isa>() LOCKSTEP_KERNEL_LAMBDA { return Isa::level; });
    CHECK(level == kernels::instruction_set());
    const auto bytes =
        kernels::dispatch([]<class Isa>() LOCKSTEP_KERNEL_LAMBDA { return Isa::vector_bytes; });
    CHECK(bytes == (level == ls::InstructionSet::avx512 ? 64
                    : level == ls::InstructionSet::avx2 ? 32
                                                        : 16));
  });
}

TEST_CASE("dispatch: hands on what the kernel throws") {
  lockstep_test::for_each_instruction_set([] {
    CHECK_THROWS_AS(
        kernels::dispatch([]<class Isa>() { throw std::runtime_error("from the kernel"); }),
        std::runtime_error);
  });
}
