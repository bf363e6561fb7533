#include "lockstep/training/named_arrays.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("named_arrays: every variable in its place among the layers, with its own values") {
  using Net = ls::Sequential<ls::Input<4>, UserDense<3>, ls::BatchNormalization<>, UserDense<2>>;
  const ls::detail::Compiled<Net, float, ls::MeanSquaredError, ls::SGD> program({}, {}, {});
  const ls::Arena<float> trained(program.layout().variables),
      untrained(program.layout().state_variables);
  const auto arrays = ls::detail::named_arrays<float>(program, trained, untrained);
  std::vector<std::string> names;
  for (const auto& array : arrays) names.push_back(array.name);
  CHECK(names == std::vector<std::string>{"user_dense/kernel", "user_dense/bias",
                                          "batch_normalization/gamma", "batch_normalization/beta",
                                          "batch_normalization/moving_mean",
                                          "batch_normalization/moving_variance",
                                          "user_dense_1/kernel", "user_dense_1/bias"});
  CHECK(arrays[0].values.data() == trained.slices()[0].data());
  CHECK(arrays[3].values.data() == trained.slices()[3].data());
  CHECK(arrays[4].values.data() == untrained.slices()[0].data());
  CHECK(arrays[5].values.data() == untrained.slices()[1].data());
  CHECK(arrays[7].values.data() == trained.slices()[5].data());
  for (const auto& array : arrays) CHECK(array.values.size() == array.variable->size());
}
