#include "lockstep/layers/dropout.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/core/random.hpp"
#include "support/finite_differences.hpp"
#include "support/instruction_sets.hpp"
#include "support/layer_rig.hpp"

namespace ls = lockstep;
using lockstep_test::for_each_instruction_set;
using lockstep_test::LayerRig;
using ls::Dropout;
using ls::GaussianDropout;
using ls::GaussianNoise;
using ls::Shape;
using ls::SpatialDropout2D;
using Rig = lockstep_test::LayerRig<GaussianNoise<0.5>, Shape<40, 50>, double>;

namespace {

/// y of a batch that consists of the given samples, each of them all ones, sample by sample.
std::vector<std::vector<float>> run(std::vector<std::int64_t> indices, std::int64_t step = 3,
                                    std::uint64_t seed = 5, std::size_t layer = 2) {
  using In = Shape<3, 7>;
  LayerRig<Dropout<0.25>, In, float> rig(indices.size());
  rig.sample_indices = std::move(indices);
  rig.context.sample_indices = rig.sample_indices;
  rig.context.step = step;
  rig.context.seed = seed;
  rig.context.layer = layer;
  for (float& x : rig.x) x = 1;
  rig.forward();
  std::vector<std::vector<float>> samples(rig.samples);
  for (std::size_t s = 0; s < rig.samples; ++s)
    for (std::size_t f = 0; f < In::size; ++f) samples[s].push_back(rig.y[f * rig.stride + s]);
  return samples;
}

}  // namespace

TEST_CASE("Dropout: gradients") {
  for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<Dropout<0.5>, Shape<3, 5>>();
    lockstep_test::check_gradients_for_all_batches<Dropout<0.0>, Shape<1>>();
  });
}

TEST_CASE("Dropout: a value is kept where the sample's random stream says so") {
  for_each_instruction_set([] {
    const auto samples = run({7, 1'000'000'000'000, 0});
    const ls::StepContext context{.step = 3, .layer = 2, .seed = 5, .sample_indices = {}};
    for (std::size_t s = 0; s < 3; ++s) {
      ls::StepContext of_sample = context;
      const std::int64_t index = s == 0 ? 7 : s == 1 ? 1'000'000'000'000 : 0;
      of_sample.sample_indices = {&index, 1};
      ls::RandomStream random(of_sample.random_key(0));
      for (const float y : samples[s]) CHECK(y == (random() >= 0x40000000 ? 1 / 0.75F : 0));
    }
  });
}

TEST_CASE(
    "Dropout: what is dropped depends on sample, step, seed and layer, and not on the place in the "
    "batch") {
  const auto all = run({10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27});
  CHECK(run({27, 12}) == std::vector{all[17], all[2]});
  CHECK(all[0] != all[1]);
  CHECK(run({10}, 4)[0] != all[0]);
  CHECK(run({10}, 3, 6)[0] != all[0]);
  CHECK(run({10}, 3, 5, 3)[0] != all[0]);
}

TEST_CASE("Dropout: drops its rate, scales by 1 / (1 - rate), and so keeps the mean" *
          doctest::test_suite("Keras: numerics")) {
  for_each_instruction_set([] {
    LayerRig<Dropout<0.3>, Shape<2000>, float> rig(50);
    for (float& x : rig.x) x = 2;
    rig.forward();
    double sum = 0, dropped = 0;
    for (std::size_t i = 0; i < rig.y.size(); ++i)
      if (i % rig.stride < rig.samples) {
        sum += static_cast<double>(rig.y[i]);
        dropped += rig.y[i] == 0 ? 1 : 0;
      }
    const double deviation = std::sqrt(0.3 * 0.7 / 100'000);
    CHECK(std::abs(dropped / 100'000 - 0.3) < 4 * deviation);
    CHECK(std::abs(sum / 100'000 - 2) < 2 * 4 * deviation / 0.7);
  });
}

TEST_CASE("Dropout: nothing is changed in inference, or with rate 0") {
  LayerRig<Dropout<0.5>, Shape<5>, float> inference(17);
  inference.context.training = false;
  inference.context.sample_indices = {};
  inference.forward();
  CHECK(std::equal(inference.x.begin(), inference.x.end(), inference.y.begin()));
  inference.backward();
  CHECK(std::equal(inference.dy.begin(), inference.dy.end(), inference.dx.begin()));
  LayerRig<Dropout<0.0>, Shape<5>, float> none(16);
  none.forward();
  CHECK(std::equal(none.x.begin(), none.x.end(), none.y.begin()));
}

TEST_CASE("Dropout: with rate 1 nothing is left, in the values and in the gradients" *
          doctest::test_suite("Keras: numerics")) {
  for_each_instruction_set([] {
    LayerRig<Dropout<1.0>, Shape<5>, float> all(17);
    all.forward();
    for (const float y : all.y) CHECK(y == 0);
    all.backward();
    for (const float dx : all.dx) CHECK(dx == 0);
    all.context.training = false;
    all.forward();
    CHECK(std::equal(all.x.begin(), all.x.end(), all.y.begin()));
  });
}

TEST_CASE("SpatialDropout1D: a feature is dropped at all positions or at none") {
  lockstep_test::LayerRig<ls::SpatialDropout1D<0.25>, ls::Sequence<5, 8>, float> rig(40);
  rig.forward();
  std::size_t dropped = 0;
  for (std::size_t f = 0; f < 8; ++f)
    for (std::size_t s = 0; s < 40; ++s) {
      const bool drops = rig.y[f * rig.stride + s * 5] == 0;
      dropped += drops;
      for (std::size_t t = 0; t < 5; ++t) {
        const std::size_t i = f * rig.stride + s * 5 + t;
        CHECK(rig.y[i] == (drops ? 0 : doctest::Approx(rig.x[i] / 0.75F)));
      }
    }
  CHECK(dropped > 50);
  CHECK(dropped < 110);
  rig.context.training = false;
  rig.forward();
  CHECK(std::equal(rig.x.begin(), rig.x.end(), rig.y.begin()));
}

TEST_CASE("SpatialDropout1D: gradients against differences") {
  lockstep_test::check_gradients_for_all_batches<ls::SpatialDropout1D<0.5>, ls::Sequence<5, 2>>();
}

TEST_CASE("SpatialDropout2D: gradients") {
  lockstep_test::for_each_instruction_set([] {
    lockstep_test::check_gradients_for_all_batches<SpatialDropout2D<0.5>, Shape<3, 2, 5>>();
  });
}

TEST_CASE(
    "SpatialDropout2D: a channel is kept in all pixels where the sample's random stream says so") {
  lockstep_test::LayerRig<SpatialDropout2D<0.25>, Shape<2, 3, 40>, float> rig(18);
  for (float& x : rig.x) x = 1;
  rig.forward();
  for (std::size_t s = 0; s < 18; ++s) {
    ls::RandomStream random(rig.context.random_key(s));
    for (std::size_t c = 0; c < 40; ++c) {
      const float expected = random() >= 0x40000000 ? 1 / 0.75F : 0;
      for (std::size_t pixel = 0; pixel < 6; ++pixel)
        CHECK(rig.y[(pixel * 40 + c) * rig.stride + s] == expected);
    }
  }
  rig.context.training = false;
  rig.forward();
  CHECK(rig.y[0] == 1);
}

TEST_CASE("GaussianDropout: gradients") {
  lockstep_test::for_each_instruction_set(
      [] { lockstep_test::check_gradients_for_all_batches<GaussianDropout<0.3>, Shape<3, 5>>(); });
}

TEST_CASE("GaussianDropout: factors of mean 1 and Dropout's deviation; none in inference") {
  lockstep_test::LayerRig<GaussianDropout<0.2>, Shape<4000>, double> rig(1);
  for (double& x : rig.x) x = 1;
  rig.forward();
  double sum = 0, squares = 0;
  for (std::size_t f = 0; f < 4000; ++f) {
    const double factor = rig.y[f * rig.stride];
    sum += factor / 4000;
    squares += (factor - 1) * (factor - 1) / 4000;
  }
  CHECK(std::abs(sum - 1) < 0.04);
  CHECK(std::abs(std::sqrt(squares) - 0.5) < 0.04);
  rig.context.training = false;
  rig.forward();
  CHECK(rig.y[0] == 1);
}

TEST_CASE("GaussianNoise: gradients") {
  lockstep_test::for_each_instruction_set(
      [] { lockstep_test::check_gradients_for_all_batches<GaussianNoise<0.1>, Shape<3, 5>>(); });
}

TEST_CASE(
    "GaussianNoise: of this deviation, another one for each sample and step, none in inference") {
  Rig rig(2), other(2);
  rig.forward();
  double sum = 0, squares = 0;
  for (std::size_t f = 0; f < 2000; ++f)
    for (std::size_t s = 0; s < 2; ++s) {
      const double noise = rig.y[f * rig.stride + s] - rig.x[f * rig.stride + s];
      sum += noise / 4000;
      squares += noise * noise / 4000;
    }
  CHECK(std::abs(sum) < 0.04);
  CHECK(std::abs(std::sqrt(squares) - 0.5) < 0.04);
  CHECK(rig.y[0] - rig.x[0] != rig.y[1] - rig.x[1]);
  other.forward();
  CHECK(other.y[0] == rig.y[0]);
  other.context.step = 1;
  other.forward();
  CHECK(other.y[0] != rig.y[0]);
  other.context.training = false;
  other.forward();
  CHECK(other.y[0] == other.x[0]);
}
