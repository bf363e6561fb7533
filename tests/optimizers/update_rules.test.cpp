#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/lars.hpp"
#include "lockstep/optimizers/muon.hpp"
#include "lockstep/optimizers/sgd.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

namespace ls = lockstep;

namespace {

const std::vector<std::string> names{"dense/kernel", "dense/bias", "dense_1/kernel"};
const std::vector<ls::Variable> variables{
    {"kernel", {2, 3}, nullptr}, {"bias", {3}, nullptr}, {"kernel", {3, 1}, nullptr}};

template <class O>
ls::detail::UpdateRules rules(const O& optimizer) {
  return ls::detail::update_rules(optimizer, names, variables);
}

/// A user's own optimizer, with one of the options.
struct Own {
  double global_clipnorm = 2;
  static constexpr std::string_view name = "Own";
};

}  // namespace

TEST_CASE(
    "update_rules: by default every variable decays, at the same rate, and nothing is clipped") {
  const auto result = rules(ls::SGD{});
  CHECK(result.variables == std::vector<ls::detail::VariableRule>(3));
  CHECK_FALSE(result.clipping.is_by_norm());
  CHECK(result.clipping.clipvalue == 0);
}

TEST_CASE("update_rules: exclusions from weight decay, and factors of the learning rate") {
  const auto excluded = rules(ls::AdamW{.exclude_from_weight_decay = ls::fewer_dimensions_than(2)});
  CHECK(excluded.variables[0].decays);
  CHECK_FALSE(excluded.variables[1].decays);
  CHECK(excluded.variables[2].decays);
  const auto slower =
      rules(ls::SGD{.learning_rate_factors = {{.variables = {"dense"}, .factor = 0.5},
                                              {.variables = {"bias"}, .factor = 0.5}}});
  CHECK(slower.variables[0].learning_rate_factor == 0.5);
  CHECK(slower.variables[1].learning_rate_factor == 0.25);
  CHECK(slower.variables[2].learning_rate_factor == 1);
}

TEST_CASE("update_rules: a user's own optimizer has the options that it names") {
  const auto result = rules(Own{});
  CHECK(result.clipping.global_clipnorm == 2);
  CHECK(result.clipping.is_by_norm());
}

TEST_CASE("update_rules: what is refused, and how it is said") {
  CHECK_THROWS_WITH_AS(rules(ls::AdamW{.exclude_from_weight_decay = {"bias", "gama"}}),
                       "AdamW: exclude_from_weight_decay: 'gama' is the name of no variable; there "
                       "are: dense/kernel, "
                       "dense/bias, dense_1/kernel",
                       ls::ConfigurationError);
  CHECK_THROWS_AS(rules(ls::Muon{.exclude_layers = {"haed"}}), ls::ConfigurationError);
  CHECK_THROWS_AS(rules(ls::LARS{.exclude_from_layer_adaptation = {"bais"}}),
                  ls::ConfigurationError);
  CHECK_THROWS_AS(
      rules(ls::SGD{.learning_rate_factors = {{.variables = {"dense_2"}, .factor = 2}}}),
      ls::ConfigurationError);
  CHECK_THROWS_WITH_AS(
      rules(ls::SGD{.learning_rate_factors = {{.variables = {"dense"}, .factor = -1}}}),
      "SGD: learning_rate_factors is -1; expected a finite number of at least 0",
      ls::ConfigurationError);
  CHECK_THROWS_WITH_AS(
      rules(ls::SGD{.clipnorm = 1, .global_clipnorm = 1}),
      "SGD: clipnorm, clipvalue and global_clipnorm exclude each other; give one of them",
      ls::ConfigurationError);
  CHECK_THROWS_AS(rules(ls::SGD{.clipvalue = -1}), ls::ConfigurationError);
  CHECK_THROWS_AS(rules(ls::SGD{.clipnorm = std::numeric_limits<double>::quiet_NaN()}),
                  ls::ConfigurationError);
}

TEST_CASE("describe_optimizer: the options of all optimizers, where they are given") {
  CHECK(ls::SGD{.global_clipnorm = 1, .exclude_from_weight_decay = {"bias"}}.description() ==
        "SGD(learning_rate=0.01, momentum=0, nesterov=false, weight_decay=0, global_clipnorm=1, "
        "exclude_from_weight_decay=bias)");
  CHECK(ls::SGD{.clipvalue = 0.5, .learning_rate_factors = {{.variables = {"dense"}, .factor = 2}}}
            .description() ==
        "SGD(learning_rate=0.01, momentum=0, nesterov=false, weight_decay=0, clipvalue=0.5, "
        "learning_rate_factor[dense]=2)");
}

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
