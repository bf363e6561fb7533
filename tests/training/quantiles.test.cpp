#include "lockstep/training/quantiles.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "golden/categories.hpp"

namespace ls = lockstep;
namespace known = lockstep_test::golden::categories;

namespace {

/// The boundaries of values that several ranks have, who take them in batches of seven.
std::vector<float> boundaries(const std::vector<float>& values, double epsilon, std::size_t bins,
                              std::size_t ranks) {
  std::vector<ls::detail::QuantileSearch> searches(ranks, {epsilon, bins - 1});
  for (int pass = 0; pass < ls::detail::QuantileSearch::passes; ++pass) {
    for (std::size_t begin = 0, batch = 0; begin < values.size(); begin += 7, ++batch)
      searches[batch % ranks].take(
          std::span(values).subspan(begin, std::min<std::size_t>(7, values.size() - begin)));
    std::vector<double> sum(searches[0].counts().size());
    for (auto& search : searches)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += search.counts()[i];
    for (auto& search : searches) {
      std::ranges::copy(sum, search.counts().begin());
      search.finish_pass();
      CHECK(search.count() == static_cast<double>(values.size()));
    }
  }
  for (const auto& search : searches) CHECK(search.boundaries() == searches[0].boundaries());
  return searches[0].boundaries();
}

}  // namespace

TEST_CASE("Keras: Discretization.adapt: boundaries, on any number of ranks") {
  for (const known::Bins& expected : known::bins) {
    const auto bins = static_cast<std::size_t>(expected.num_bins);
    const std::vector<float> alone = boundaries(expected.values, expected.epsilon, bins, 1);
    REQUIRE(alone.size() == bins - 1);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      if (i < expected.boundaries.size())
        CHECK(alone[i] == expected.boundaries[i]);
      else
        CHECK(alone[i] == std::numeric_limits<float>::infinity());
    }
    for (const std::size_t ranks : {2U, 3U, 5U})
      CHECK(boundaries(expected.values, expected.epsilon, bins, ranks) == alone);
  }
}

TEST_CASE("QuantileSearch: signs, zeros, infinities, repetitions; NaN is no value") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  ls::detail::QuantileSearch search(0.01, 4);
  const std::vector<float> values{infinity, -1e-40F, 3, std::nanf(""), -infinity, 3, -7, 1e-40F};
  for (int pass = 0; pass < ls::detail::QuantileSearch::passes; ++pass) {
    search.take(values);
    search.finish_pass();
  }
  CHECK(search.count() == 7);
  // np.interp of the sorted values at 1/5, 2/5, ...: by hand
  const std::vector<float> boundaries = search.boundaries();
  CHECK(boundaries[0] == -infinity);
  CHECK(boundaries[1] == doctest::Approx(-7 * 0.2).epsilon(1e-5));
  CHECK(boundaries[2] == doctest::Approx(3 * 0.2).epsilon(1e-5));
  CHECK(boundaries[3] == 3);
}
