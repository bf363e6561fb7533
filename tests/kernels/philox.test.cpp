#include "lockstep/kernels/random.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lockstep/core/random.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/vector.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace kernels = lockstep::kernels;

TEST_CASE("Philox: the numbers of the scalar stream, for each key") {
  lockstep_test::for_each_instruction_set([] {
    std::uint64_t keys[8];
    for (std::size_t k = 0; k < 8; ++k)
      keys[k] = k == 0 ? ~std::uint64_t{0} : ls::RandomKey(5).fold_in(k).value();
    std::uint64_t values[3][4][8] = {};
    const std::size_t width = kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
      for (std::uint64_t block = 0; block < 3; ++block) {
        typename kernels::Philox<Isa>::Words words[4];
        kernels::Philox<Isa>::generate(block, keys, words);
        for (std::size_t i = 0; i < 4; ++i)
          std::memcpy(values[block][i], &words[i], sizeof words[i]);
      }
      return kernels::lanes<double, Isa>;
    });
    for (std::size_t k = 0; k < width; ++k) {
      ls::RandomStream stream{ls::RandomKey(keys[k])};
      for (const auto& block : values)
        for (const auto& word : block) CHECK(word[k] == stream());
    }
  });
}

TEST_CASE("UniformNumbers: those of the scalar stream, from any block on, bit by bit") {
  lockstep_test::for_each_instruction_set([] {
    const ls::RandomKey key = ls::RandomKey(3).fold_in(~std::uint64_t{0});
    ls::RandomStream stream(key);
    for (int skipped = 0; skipped < 2 * 5; ++skipped) (void)stream.uniform();
    double numbers[2 * 24];
    kernels::dispatch(kernels::UniformNumbers{key.value(), 5, 24, numbers});
    for (const double number : numbers) CHECK(number == stream.uniform());
  });
}
