#include "lockstep/network/swiglu.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "support/net_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {
using Net = ls::Sequential<ls::Input<3>, ls::SwiGLU<5, 4>>;
}  // namespace

// (model/llama.test.cpp compares it with transformers.)
TEST_CASE("SwiGLU: names, the formula, gradients") {
  CHECK(Net::variable_names<ls::Shape<3>>() ==
        std::vector<std::string>{"sequential/parallel/dense/kernel",
                                 "sequential/parallel/dense_1/kernel", "sequential/dense/kernel"});
  NetRunner<Net> net;
  net.run(2);
  const auto weights = net.parameter_slices();
  const auto product = [&](std::size_t kernel, std::size_t units, std::size_t unit, auto input) {
    double sum = 0;
    for (std::size_t i = 0; i < weights[kernel].size() / units; ++i)
      sum += input(i) * weights[kernel][i * units + unit];
    return sum;
  };
  for (std::size_t sample = 0; sample < 2; ++sample) {
    const auto x = [&](std::size_t i) { return net.workspace().x()(sample, i); };
    const auto gated = [&](std::size_t h) {
      const double gate = product(0, 5, h, x);
      return gate / (1 + std::exp(-gate)) * product(1, 5, h, x);
    };
    for (std::size_t unit = 0; unit < 4; ++unit)
      CHECK(std::abs(net.outputs()[unit * 2 + sample] - product(2, 4, unit, gated)) < 1e-12);
  }
  check_gradients<Net>(5);
}
