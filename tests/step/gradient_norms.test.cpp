#include "lockstep/step/variables.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/variable.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;

namespace {

const std::vector<ls::Variable> variables{
    {"a", {3}, nullptr}, {"b", {50'000}, nullptr}, {"c", {16'384}, nullptr}};

}  // namespace

TEST_CASE("GradientNorms: of all variables, and of each") {
  const ls::Arena<float> arena(variables);
  for (const auto slice : arena.slices()) slice[0] = slice[slice.size() - 1] = 3;
  arena.slices()[0][1] = 1e-30F;  // its square is no float
  arena.slices()[1][20'000] = 1e30F;
  ls::detail::GradientNorms norms(arena);
  norms.compute_part(std::span<const float>(arena.values()), 0, 1);
  CHECK(norms.norm() == doctest::Approx(1e30));
  // In the arena: c, b, a.
  CHECK(norms.norm(0, 16'384) == std::sqrt(18.0));
  CHECK(norms.norm(16'384, 16'384 + 50'000) == doctest::Approx(1e30));
  CHECK(norms.norm(16'384 + 50'000) == std::sqrt(18.0));
}

TEST_CASE(
    "GradientNorms: the bits do not depend on how many compute it, nor on the instruction set") {
  const ls::Arena<float> arena(variables);
  for (std::size_t i = 0; i < arena.slices().size(); ++i)
    for (std::size_t k = 0; k < arena.slices()[i].size(); ++k)
      arena.slices()[i][k] = std::sin(static_cast<float>(k)) * static_cast<float>(i + 1);
  ls::detail::GradientNorms whole(arena);
  whole.compute_part(std::span<const float>(arena.values()), 0, 1);
  CHECK(whole.norm() ==
        doctest::Approx(std::sqrt(0.5 * (3 + 4 * 50'000 + 9 * 16'384))).epsilon(1e-3));
  lockstep_test::for_each_instruction_set([&] {
    for (const std::size_t parts : {1u, 2u, 3u, 7u}) {
      ls::detail::GradientNorms norms(arena);
      for (std::size_t part = parts; part > 0; --part)
        norms.compute_part(std::span<const float>(arena.values()), part - 1, parts);
      CHECK(norms.norm() == whole.norm());
    }
  });
}
