#include "lockstep/extra/elastic/membership.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "lockstep/core/error.hpp"

using lockstep::ConfigurationError;
using lockstep::ElasticOptions;

TEST_CASE("ElasticOptions: what a cluster of four can have") {
  CHECK_NOTHROW(ElasticOptions{}.validate(4));
  CHECK_NOTHROW((ElasticOptions{.min_workers = 4, .max_workers = 4}.validate(4)));
  CHECK_THROWS_WITH_AS(
      ElasticOptions{.min_workers = 5}.validate(4),
      "ElasticOptions::min_workers must be 1 to 4, the workers of the cluster, got 5",
      ConfigurationError);
  CHECK_THROWS_AS(ElasticOptions{.min_workers = 0}.validate(4), ConfigurationError);
  CHECK_THROWS_AS(ElasticOptions{.max_workers = 8}.validate(4), ConfigurationError);
  CHECK_THROWS_AS(ElasticOptions{.wait = std::chrono::milliseconds(0)}.validate(4),
                  ConfigurationError);
}
