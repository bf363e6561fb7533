#include "lockstep/network/tied_head.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "support/layer_rig.hpp"

namespace ls = lockstep;
using ls::Shape;

namespace {

using Head = ls::TiedHead<ls::Embedding<7, 3, ls::EmbeddingOptions{.mask_zero = true}>,
                          ls::PositionEmbedding<5>, ls::Dense<4, ls::Tanh>, ls::Dense<3>>;
using In = Shape<5>;

}  // namespace

TEST_CASE("TiedHead: shape, variables and names") {
  static_assert(std::is_same_v<Head::Output<In>, ls::Sequence<5, 7>>);
  const auto& variables = Head::variables<In>;
  REQUIRE(variables.size() == 6);  // the table once
  CHECK(variables[0].name == "embeddings");
  CHECK(variables[0].size() == 21);
  CHECK(Head::layer_count == 4);
  CHECK(Head::layers<In>.size() == 4);
}

TEST_CASE("TiedHead: gradients of the table, by both of its uses, and of the layers") {
  for (const std::size_t samples : {0u, 1u, 5u}) {
    CAPTURE(samples);
    lockstep_test::LayerRig<Head, In, double> rig(samples);
    for (std::size_t i = 0; i < rig.x.size(); ++i) rig.x[i] = static_cast<double>(i * i % 7);
    const std::vector<double> dy(rig.dy.begin(), rig.dy.end());
    const auto loss = [&] {
      rig.forward();
      double sum = 0;
      for (std::size_t i = 0; i < dy.size(); ++i) sum += dy[i] == 0 ? 0 : dy[i] * rig.y[i];
      return sum;
    };
    loss();
    CHECK(std::all_of(rig.y.begin(), rig.y.end(), [](double v) { return std::isfinite(v); }));
    if (samples > 0) CHECK(rig.mask_of_y != nullptr);
    rig.backward();
    double worst = 0;
    for (std::size_t v = 0; v < rig.weights.size(); ++v)
      for (std::size_t i = 0; i < rig.weights[v].size(); ++i) {
        constexpr double h = 1e-5;
        double& value = rig.weights[v][i];
        const double saved = value;
        value = saved + h;
        const double above = loss();
        value = saved - h;
        const double below = loss();
        value = saved;
        worst = std::max(worst, std::abs((above - below) / (2 * h) - rig.gradients[v][i]));
      }
    CHECK(worst < 1e-7);
    CHECK(std::all_of(rig.dx.begin(), rig.dx.end(), [](double v) { return v == 0; }));
  }
}

TEST_CASE(
    "TiedHead: logits that are not finite are shown, at the place of the table that makes them") {
  lockstep_test::LayerRig<Head, In, double> rig(2);
  for (double& id : rig.x) id = 1;
  rig.forward();
  std::vector<std::size_t> positions;
  const double* last = nullptr;
  auto visit = [&](std::size_t position, const ls::TensorView<const double>& y) {
    positions.push_back(position);
    last = y.data();
  };
  Head::each_output<In, double>(3, rig.forward_pass(), visit);
  CHECK(positions == std::vector<std::size_t>{3, 4, 5, 6, 3});
  CHECK(last == rig.y.data());
}
