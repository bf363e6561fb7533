#include "lockstep/layers/batch_normalization.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "golden/recurrent.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "support/finite_differences.hpp"
#include "support/golden_struct.hpp"
#include "support/instruction_sets.hpp"

namespace ls = lockstep;
using lockstep_test::for_each_instruction_set;
using lockstep_test::LayerRig;
using ls::BatchNormalization;
using ls::BatchNormalizationOptions;
using ls::Shape;

TEST_CASE("channel statistics: the moments of two replicas become those of both") {
  // Values 1, 2 and 6 here; 3 and 8 there.
  ls::detail::ChannelStatistics<1> here, there;
  here.count() = 3;
  here.first()[0] = 3;
  here.second()[0] = 14;
  there.count() = 2;
  there.first()[0] = 5.5;
  there.second()[0] = 12.5;
  const auto add = [](void* other, std::span<double> values) {
    const auto& moments = *static_cast<ls::detail::ChannelStatistics<1>*>(other);
    values[0] += moments.values[0];
    values[1] += moments.values[0] * moments.values[1];
    values[2] += moments.values[2] + moments.values[0] * moments.values[1] * moments.values[1];
  };
  ls::detail::combine_moments(here, ls::CrossReplicaSum(&there, add));
  CHECK(here.count() == 5);
  CHECK(here.first()[0] == doctest::Approx(4));
  CHECK(here.second()[0] == doctest::Approx(34));
}

TEST_CASE("channel statistics: without samples anywhere nothing is divided by zero") {
  ls::detail::ChannelStatistics<2> none{};
  ls::detail::combine_moments(none, ls::CrossReplicaSum());
  CHECK(none.first()[1] == 0);
  CHECK(none.second()[1] == 0);
}

namespace {

constexpr ls::Initializer third = [](ls::RandomStream&, ls::Fans fans) {
  return static_cast<double>(fans.in) / 3;
};

using Plain = BatchNormalization<>;
using Synchronized =
    BatchNormalization<ls::Linear, BatchNormalizationOptions{.synchronized = true}>;
using WithoutBeta = BatchNormalization<ls::Linear, BatchNormalizationOptions{.center = false}>;
using WithoutGamma = BatchNormalization<ls::Linear, BatchNormalizationOptions{.scale = false}>;
using Bare =
    BatchNormalization<ls::Linear, BatchNormalizationOptions{.center = false, .scale = false}>;

/// Gives the replicas of a batch normalisation a sum over all of them.
ls::CrossReplicaSum sum_over(ls::InProcess& member) {
  return {&member, [](void* self, std::span<double> values) {
            static_cast<ls::InProcess*>(self)->all_reduce(values);
          }};
}

/// Runs one step on each of `rigs`, as replicas on threads of their own.
template <class Rig>
void run_replicas(std::vector<std::unique_ptr<Rig>>& rigs) {
  ls::InProcessGroup group(static_cast<int>(rigs.size()));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < rigs.size(); ++rank)
    threads.emplace_back([&, rank] {
      ls::InProcess member = group.member(static_cast<int>(rank));
      rigs[rank]->context.cross_replica_sum = sum_over(member);
      rigs[rank]->forward();
      rigs[rank]->backward();
    });
  for (std::thread& thread : threads) thread.join();
}

/// Parts of a batch on replicas give what one replica gives with the whole batch.
template <class In, class T>
void check_synchronized(std::initializer_list<std::size_t> parts, double tolerance,
                        bool masks = false) {
  std::size_t samples = 0;
  for (const std::size_t part : parts) samples += part;
  using Rig = LayerRig<Synchronized, In, T>;
  Rig whole(samples);
  std::vector<T> mask(samples);  // the first rows do not count
  for (std::size_t row = 0; row < samples; ++row) mask[row] = row < 3 || row % 3 == 1 ? T(0) : T(1);
  if (masks) whole.mask = mask.data();
  std::vector<std::unique_ptr<Rig>> rigs;
  std::size_t first = 0;
  const auto each_of_part = [&](Rig& rig, std::size_t begin, auto&& f) {
    for (std::size_t feature = 0; feature < In::size; ++feature)
      for (std::size_t s = 0; s < rig.samples; ++s)
        f(feature * rig.stride + s, feature * whole.stride + begin + s);
  };
  for (const std::size_t part : parts) {
    Rig& rig = *rigs.emplace_back(std::make_unique<Rig>(part));
    if (masks) rig.mask = mask.data() + first;
    for (std::size_t v = 0; v < 2; ++v)
      std::copy(whole.weights[v].begin(), whole.weights[v].end(), rig.weights[v].begin());
    each_of_part(rig, first, [&](std::size_t mine, std::size_t all) {
      rig.x[mine] = whole.x[all];
      rig.dy[mine] = whole.dy[all];
    });
    first += part;
  }
  whole.forward();
  whole.backward();
  run_replicas(rigs);

  double worst = 0;
  const auto compare = [&](T a, T b) {
    worst = std::max(worst, std::abs(static_cast<double>(a) - static_cast<double>(b)));
  };
  first = 0;
  for (const auto& rig : rigs) {
    each_of_part(*rig, first, [&](std::size_t mine, std::size_t all) {
      compare(rig->y[mine], whole.y[all]);
      compare(rig->dx[mine], whole.dx[all]);
    });
    for (std::size_t v = 0; v < 2; ++v) {
      CHECK(std::equal(rig->state[v].begin(), rig->state[v].end(),
                       rigs[0]->state[v].begin()));  // to the bit
      for (std::size_t c = 0; c < rig->state[v].size(); ++c)
        compare(rig->state[v][c], whole.state[v][c]);
    }
    first += rig->samples;
  }
  for (std::size_t v = 0; v < 2; ++v)
    for (std::size_t c = 0; c < whole.gradients[v].size(); ++c) {
      T sum = 0;
      for (const auto& rig : rigs) sum += rig->gradients[v][c];
      compare(sum, whole.gradients[v][c]);
    }
  CHECK(worst < tolerance);
}

}  // namespace

TEST_CASE("BatchNormalization: variables and their initialisers") {
  using L =
      BatchNormalization<ls::ReLU, BatchNormalizationOptions{.gamma_initializer = third,
                                                             .moving_mean_initializer = ls::ones}>;
  const auto& all = L::variables<Shape<4, 6>>;
  const auto& state = L::state_variables<Shape<4, 6>>;
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "gamma");
  CHECK(all[1].name == "beta");
  ls::RandomStream random{ls::RandomKey(1)};
  CHECK(all[0].initializer(random, all[0].fans) == 2);
  CHECK((all[1].initializer == ls::zeros));
  CHECK(state[0].name == "moving_mean");
  CHECK((state[0].initializer == ls::ones));
  CHECK((state[1].initializer == ls::ones));
  CHECK((Plain::state_variables<Shape<4, 6>>[0].initializer == ls::zeros));
  CHECK((Plain::variables<Shape<4, 6>>[0].initializer == ls::ones));
}

TEST_CASE("BatchNormalization: variables and untrained state") {
  const auto& all = Plain::variables<Shape<4, 5, 3>>;
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "gamma");
  CHECK(all[0].size() == 3);
  CHECK(all[1].name == "beta");
  static_assert(WithoutBeta::variables<Shape<3>>.size() == 1 &&
                WithoutGamma::variables<Shape<3>>.size() == 1);
  CHECK(WithoutBeta::variables<Shape<3>>[0].name == "gamma");
  CHECK(WithoutGamma::variables<Shape<3>>[0].name == "beta");
  static_assert(Bare::variables<Shape<3>>.empty());
  const auto& state = Plain::state_variables<Shape<4, 5, 3>>;
  CHECK(state[0].name == "moving_mean");
  CHECK(state[1].name == "moving_variance");
  CHECK(state[1].size() == 3);
}

TEST_CASE("BatchNormalization: gradients") {
  for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<Plain, Shape<3, 4, 5>>();
    lockstep_test::check_gradients_for_all_batches<Plain, Shape<7>>();
    lockstep_test::check_gradients_for_all_batches<BatchNormalization<ls::HardSiLU>, Shape<3, 5>>();
    lockstep_test::check_gradients_for_all_batches<Synchronized, Shape<2, 2, 3>>();
    lockstep_test::check_gradients<WithoutBeta, Shape<2, 3, 2>>(5);
    lockstep_test::check_gradients<WithoutGamma, Shape<4, 2>>(17);
    lockstep_test::check_gradients<Bare, Shape<6>>(80);
  });
}

TEST_CASE_TEMPLATE("BatchNormalization: mean 0 and variance 1, whatever is in the padding", T,
                   float, double) {
  for_each_instruction_set([] {
    for (const std::size_t samples : {1u, 5u, 16u, 17u, 33u}) {
      CAPTURE(samples);
      LayerRig<Plain, Shape<4, 3, 2>, T> rig(samples);
      for (T& weight : rig.weights[0]) weight = 1;
      for (T& weight : rig.weights[1]) weight = 0;
      for (std::size_t f = 0; f < 24; ++f)
        for (std::size_t s = samples; s < rig.stride; ++s) rig.x[f * rig.stride + s] = T(1e30);
      rig.forward();
      for (std::size_t channel = 0; channel < 2; ++channel) {
        double sum = 0, squares = 0, variance = 0;
        for (std::size_t f = channel; f < 24; f += 2)
          for (std::size_t s = 0; s < samples; ++s) {
            const double y = static_cast<double>(rig.y[f * rig.stride + s]);
            sum += y;
            squares += y * y;
          }
        const double count = static_cast<double>(12 * samples);
        variance = (static_cast<double>(rig.state[1][channel]) - 0.99) / 0.01 * (count - 1) / count;
        CHECK(std::abs(sum / count) < 1e-6);
        CHECK(squares / count == doctest::Approx(variance / (variance + 1e-3)).epsilon(1e-4));
      }
      for (std::size_t i = 0; i < rig.y.size(); ++i)
        if (i % rig.stride >= samples) CHECK(rig.y[i] == 0);
    }
  });
}

TEST_CASE("BatchNormalization: a mean far from zero costs no accuracy") {
  for_each_instruction_set([] {
    using In = Shape<30, 30, 2>;
    LayerRig<Plain, In, float> near(64), far(64);
    for (float& x : near.x) x = std::round(x * 256) / 256;
    for (std::size_t i = 0; i < near.x.size(); ++i) far.x[i] = near.x[i] + 8192;  // exact
    near.forward();
    far.forward();
    double worst = 0;
    for (std::size_t i = 0; i < near.y.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::abs(near.y[i] - far.y[i])));
    CHECK(worst < 2e-3);  // half a unit in the last place of the mean, over the deviation
    CHECK(near.state[1][0] == doctest::Approx(far.state[1][0]).epsilon(1e-6));
  });
}

TEST_CASE("BatchNormalization: inference takes the moving statistics and leaves them alone") {
  LayerRig<Plain, Shape<2>, float> rig(3);
  rig.context.training = false;
  rig.state[0][0] = 0.5F;
  rig.state[1][0] = 4;
  rig.forward();
  const float expected =
      rig.weights[0][0] * (rig.x[0] - 0.5F) / std::sqrt(4 + 1e-3F) + rig.weights[1][0];
  CHECK(rig.y[0] == doctest::Approx(expected).epsilon(1e-6));
  CHECK(rig.state[0][0] == 0.5F);
  CHECK(rig.state[1][0] == 4);
  rig.backward();
  CHECK(rig.dx[0] ==
        doctest::Approx(rig.dy[0] * rig.weights[0][0] / std::sqrt(4 + 1e-3F)).epsilon(1e-6));
}

TEST_CASE(
    "BatchNormalization: without samples the moving statistics stay, and the gradients are zero") {
  LayerRig<Plain, Shape<2, 2, 3>, float> rig(0);
  rig.forward();
  rig.backward();
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(rig.state[0][c] == 0);
    CHECK(rig.state[1][c] == 1);
    CHECK(rig.gradients[0][c] == 0);
    CHECK(rig.gradients[1][c] == 0);
  }
}

TEST_CASE("BatchNormalization: synchronised, parts of a batch give what the whole batch gives") {
  for_each_instruction_set([] {
    check_synchronized<Shape<3, 2, 4>, double>({5, 4}, 1e-12);
    check_synchronized<Shape<3, 2, 4>, float>({17, 1, 0, 6}, 5e-6);
    check_synchronized<Shape<5>, float>({0, 3}, 5e-6);
    check_synchronized<Shape<5>, double>({0, 0}, 1e-12);
    check_synchronized<Shape<5>, double>({2, 7, 0}, 1e-12,
                                         true);  // nothing counts on the first one
  });
}

TEST_CASE("BatchNormalization: Keras's values, gradients and moving statistics of masked tokens") {
  using L = BatchNormalization<ls::Linear, BatchNormalizationOptions{.momentum = 0.9}>;
  using Values = lockstep_test::golden::batch_normalization_masked;
  constexpr std::size_t tokens = 20;
  lockstep_test::check_golden_struct<Values, L, Shape<3>>(tokens);
  LayerRig<L, Shape<3>, double> rig(tokens);
  rig.mask = Values::mask;
  for (std::size_t i = 0; i < 3 * tokens; ++i) rig.x[i % 3 * rig.stride + i / 3] = Values::x[i];
  rig.forward();
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(rig.state[0][c] == doctest::Approx(Values::moving_mean[c]).epsilon(1e-7));
    CHECK(rig.state[1][c] == doctest::Approx(Values::moving_variance[c]).epsilon(1e-7));
  }
}

TEST_CASE("BatchNormalization: a batch that is all masked moves nothing and stays finite") {
  using L = BatchNormalization<ls::ReLU>;
  LayerRig<L, Shape<3>, float> rig(5);
  const std::vector<float> mask(5, 0.0F);
  rig.mask = mask.data();
  rig.forward();
  rig.backward();
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(rig.state[0][c] == 0);
    CHECK(rig.state[1][c] == 1);
  }
  const auto finite = [](float value) { return std::isfinite(value); };
  CHECK(std::all_of(rig.y.begin(), rig.y.end(), finite));
  CHECK(std::all_of(rig.dx.begin(), rig.dx.end(), finite));
}

TEST_CASE("BatchNormalization: masked, with an activation of its own as with one behind it") {
  LayerRig<BatchNormalization<ls::ReLU>, Shape<4>, double> fused(9);
  LayerRig<BatchNormalization<>, Shape<4>, double> plain(9);
  const std::vector<double> mask = {0, 1, 1, 0, 1, 1, 1, 0, 1};
  fused.mask = plain.mask = mask.data();
  fused.forward();
  plain.forward();
  for (std::size_t f = 0; f < 4; ++f)
    for (std::size_t row = 0; row < 9; ++row)
      if (plain.y[f * plain.stride + row] <= 0) plain.dy[f * plain.stride + row] = 0;
  fused.backward();
  plain.backward();
  for (std::size_t i = 0; i < plain.dx.size(); ++i)
    CHECK(fused.dx[i] == doctest::Approx(plain.dx[i]));
  CHECK(fused.gradients[0][1] == doctest::Approx(plain.gradients[0][1]));
}

TEST_CASE("BatchNormalization: penalties and constraints go to gamma and beta") {
  constexpr BatchNormalizationOptions options{.gamma_regularizer = ls::L1{0.5},
                                              .beta_regularizer = ls::L2{0.25},
                                              .gamma_constraint = ls::NonNeg{}};
  const auto& variables = BatchNormalization<ls::Linear, options>::variables<Shape<3>>;
  CHECK(variables[0].regularizer.l1 == 0.5);
  CHECK(variables[1].regularizer.l2 == 0.25);
  CHECK((variables[0].constraint.kind == ls::Constraint::Kind::non_negative));
  CHECK((variables[1].constraint.kind == ls::Constraint::Kind::none));
}
