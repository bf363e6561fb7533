#include "lockstep/kernels/vector_loops.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace kernels = lockstep::kernels;
using lockstep_test::Array;
using lockstep_test::for_each_instruction_set;
using lockstep_test::random_array;

TEST_CASE("vector loops: pieces cover all samples, and what lies beyond them is zero") {
  for_each_instruction_set([] {
    for (const std::size_t samples : {0u, 1u, 15u, 16u, 37u, 80u}) {
      CAPTURE(samples);
      const Array<float> from(96, 3.0F), to(96, -1.0F);
      kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
        using P = kernels::Pack<float, Isa::vector_bytes>;
        kernels::for_each_sample_piece<Isa, float>(
            samples,
            [&]<std::size_t Vectors>(std::size_t i, const auto& keep) LOCKSTEP_KERNEL_LAMBDA {
              for (std::size_t v = 0; v < Vectors; ++v)
                keep(P(static_cast<const float*>(from.data() + i + v * P::size)))
                    .store(to.data() + i + v * P::size);
            });
      });
      for (std::size_t i = 0; i < 96; ++i)
        CHECK(to[i] == (i < samples ? 3 : i < (samples + 15) / 16 * 16 ? to[i] : -1));
      for (std::size_t i = samples; i < 96; ++i) CHECK((to[i] == 0 || to[i] == -1));
    }
  });
}

TEST_CASE("vector loops: groups of features, of which some samples are gone through") {
  for_each_instruction_set([] {
    const Array<float> visits(2 * 3 * 32, 0.0F), places(2 * 32, 0.0F);
    kernels::dispatch([&]<class Isa>() LOCKSTEP_KERNEL_LAMBDA {
      constexpr std::size_t lanes = kernels::lanes<float, Isa>;
      kernels::for_each_group<Isa, float>({.groups = 2, .features = 3, .samples = 16, .stride = 32},
                                          [&](std::size_t first, std::size_t i)
                                              LOCKSTEP_KERNEL_LAMBDA {
                                                for (std::size_t k = 0; k < lanes; ++k) {
                                                  visits[first + k] += 1;
                                                  places[i + k] += 1;
                                                }
                                              });
    });
    for (std::size_t i = 0; i < visits.size(); ++i) CHECK(visits[i] == (i % 96 < 16 ? 1 : 0));
    for (std::size_t i = 0; i < places.size(); ++i) CHECK(places[i] == (i % 32 < 16 ? 1 : 0));
  });
}
