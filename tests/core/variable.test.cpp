#include "lockstep/core/variable.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;

namespace {

constexpr ls::Variable kernel("kernel", {3, 3, 1, 32}, nullptr, {.in = 9, .out = 288});
static_assert(kernel.name == "kernel" && kernel.rank == 4 && kernel.size() == 288);
static_assert(kernel.extents == std::array<std::size_t, ls::Variable::max_rank>{3, 3, 1, 32, 0, 0});
static_assert(kernel.fans.in == 9 && kernel.fans.out == 288);
static_assert(ls::Variable("scale", {}, nullptr).size() == 1);

}  // namespace

TEST_CASE("Variable: a lambda without captures is an initialiser") {
  const ls::Variable variable("half", {4}, [](ls::RandomStream&, ls::Fans fans) {
    return 0.5 * static_cast<double>(fans.in);
  });
  ls::RandomStream random{ls::RandomKey()};
  CHECK(variable.initializer(random, {.in = 3, .out = 1}) == 1.5);
}
