#include "lockstep/optimizers/variable_filter.hpp"

#include <doctest/doctest.h>

namespace ls = lockstep;
using ls::VariableFilter;

TEST_CASE("VariableFilter: patterns") {
  const auto matches = [](const char* pattern, const char* name) {
    return VariableFilter::matches(pattern, name);
  };
  CHECK(matches("dense_1/bias", "dense_1/bias"));
  CHECK(matches("*/bias", "block/dense_1/bias"));
  CHECK_FALSE(matches("dense/bias", "block/dense/bias"));
  CHECK_FALSE(matches("dense_1/bias", "dense_10/bias"));
  CHECK(matches("bias", "dense_1/bias"));
  CHECK(matches("dense_1", "block/dense_1/bias"));
  CHECK(matches("dense_?", "dense_1/bias"));
  CHECK(matches("layer_norm*", "block/layer_normalization_3/gamma"));
  CHECK(matches("[bg]*", "layer_normalization/gamma"));
  CHECK_FALSE(matches("bias", "dense/bias_2"));
  CHECK_FALSE(matches("", "dense/bias"));
}

TEST_CASE("VariableFilter: names, dimensions, and both") {
  CHECK_FALSE(VariableFilter{}.contains("dense/bias", 0));
  CHECK(VariableFilter{}.empty());
  const VariableFilter named{"gamma", "dense_1"};
  CHECK(named.contains("batch_normalization/gamma", 1));
  CHECK(named.contains("dense_1/kernel", 2));
  CHECK_FALSE(named.contains("dense/kernel", 2));
  CHECK(named.description() == "gamma|dense_1");
  const VariableFilter both = ls::fewer_dimensions_than(2) | VariableFilter{"embedding*"};
  CHECK(both.contains("dense/bias", 1));
  CHECK(both.contains("embedding_1/embeddings", 2));
  CHECK_FALSE(both.contains("dense/kernel", 2));
  CHECK_FALSE(both.empty());
  CHECK(both.description() == "embedding*|<2d");
}
