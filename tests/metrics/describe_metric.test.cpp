#include "lockstep/metrics/describe_metric.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>

using lockstep::detail::describe_metric;
using lockstep::detail::optional_text;

TEST_CASE("describe_metric: the options that are not the default, in their order") {
  CHECK(describe_metric("precision", {}) == "precision");
  CHECK(describe_metric("precision", {{"top_k", 3.0, 3.0}, {"on", true, true}}) == "precision");
  CHECK(describe_metric("precision", {{"top_k", 3.0, 0.0}, {"on", true, true}}) ==
        "precision(top_k=3)");
  CHECK(describe_metric("auc", {{"curve", std::string("PR"), std::string("ROC")},
                                {"on", false, true},
                                {"n", std::int64_t{5}, std::int64_t{200}}}) ==
        "auc(curve=PR, on=false, n=5)");
}

TEST_CASE("describe_metric: an option that need not be given") {
  CHECK(optional_text(std::optional<int>()) == "none");
  CHECK(optional_text(std::optional<int>(0)) == "0");
  CHECK(optional_text(std::optional<double>(0.25)) == "0.25");
}
