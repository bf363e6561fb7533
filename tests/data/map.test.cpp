#include "lockstep/data/map.hpp"

#include <doctest/doctest.h>

#include <set>

#include "data/support.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// The first batch of everything.
template <class T, class P>
Read<T> whole(const P& pipeline, ls::Iteration iteration = {}) {
  auto dataset = pipeline.batch(1000);
  dataset.begin(iteration);
  dataset.next();
  return Read<T>(dataset);
}

}  // namespace

TEST_SUITE("Keras: dataset pipeline: map") {
  TEST_CASE("a function of each sample changes it and its targets, in place") {
    const auto pipeline = numbers(40).map([](auto& sample) {
      sample.x[0] += 1;
      sample.y[0] -= sample.x[0];
    });
    for (std::size_t i = 0; i < 40; ++i) {
      const double n = static_cast<double>(i);
      CHECK(whole<double>(pipeline).x(i, 0) == n + 1);
      CHECK(whole<double>(pipeline).y(i, 0) == 10 * n - n - 1);
      CHECK(whole<float>(pipeline).x(i, 0) == static_cast<float>(n + 1));
    }
    CHECK(whole<float>(pipeline).x.padding_is(0.0f));
    CHECK(whole<float>(pipeline).y.padding_is(0.0f));
  }

  TEST_CASE("comes after the conversion to the scalar type") {
    const auto images = ls::Tensor<std::uint8_t>({0, 51, 255}, {3, 1}) / 255.0f;
    const auto pipeline =
        ls::from_tensor_slices(images).map([](auto& sample) { sample.x[0] -= 1; });
    CHECK(whole<double>(pipeline).x(1, 0) == 51.0 / 255.0 - 1.0);
  }

  TEST_CASE("a function for one scalar type serves both") {
    const auto for_float = numbers(20).map([](ls::Sample<float>& sample) { sample.x[0] *= 3; });
    const auto for_double = numbers(20).map([](ls::Sample<double>& sample) { sample.x[0] *= 3; });
    CHECK(whole<float>(for_float).x(7, 0) == 21.0f);
    CHECK(whole<double>(for_float).x(7, 0) == 21.0);
    CHECK(whole<float>(for_double).x(7, 0) == 21.0f);
    CHECK(whole<double>(for_double).x(7, 0) == 21.0);
  }

  TEST_CASE("is in the order of the samples, also shuffled, and knows their numbers") {
    auto dataset = numbers(40)
                       .map([](auto& sample) {
                         sample.x[0] *= 2;
                         sample.y[0] = static_cast<std::remove_reference_t<decltype(sample.y[0])>>(
                             sample.index);
                       })
                       .shuffle(40)
                       .batch(40);
    dataset.begin({});
    dataset.next();
    const Read<float> read(dataset);
    for (std::size_t i = 0; i < 40; ++i) {
      CHECK(read.y(i, 0) == static_cast<float>(dataset.sample_indices()[i]));
      CHECK(read.x(i, 0) == 2 * read.y(i, 0));
    }
  }

  TEST_CASE("maps are applied one after the other") {
    const auto pipeline =
        numbers(3).map([](auto& s) { s.x[0] += 1; }).map([](auto& s) { s.x[0] *= 10; });
    CHECK(whole<double>(pipeline).x(2, 0) == 30.0);
  }

  TEST_CASE("sees the targets though the caller wants none") {
    auto dataset = numbers(3).map([](auto& s) { s.x[0] = s.y[0]; }).batch(3);
    dataset.begin({});
    dataset.next();
    const Tensor<float> x(3, 1);
    dataset.read(std::span<const std::size_t>(all_positions(dataset)), x.view(),
                 ls::TensorView<float>{});
    CHECK(x(2, 0) == 20.0f);
  }

  TEST_CASE("has no targets where the source has none") {
    const auto pipeline = ls::from_tensor_slices(std::vector<int>{1, 2}).map([](auto& s) {
      CHECK(s.y.empty());
      s.x[0] += 1;
    });
    CHECK(whole<float>(pipeline).x(1, 0) == 3.0f);
  }

  TEST_CASE("captures") {
    int factor = 7;
    auto pipeline = numbers(3).map([factor](auto& s) { s.x[0] *= static_cast<float>(factor); });
    static_assert(std::copyable<decltype(pipeline)>);
    auto other = pipeline;
    other = pipeline;
    CHECK(whole<float>(other).x(1, 0) == 7.0f);
  }

  TEST_CASE("with other sizes") {
    const auto pipeline = numbers(20).map(
        [](const auto& in, auto& out) {
          out.x[0] = in.x[0];
          out.x[1] = in.x[0] * in.x[0];
          out.x[2] = -1;
          out.y[0] = in.y[0];
          out.y[1] = in.y[0] + 1;
        },
        {.sample_size = 3, .target_size = 2});
    CHECK(pipeline.sample_size() == 3);
    CHECK(pipeline.target_size() == 2);
    const Read<float> read = whole<float>(pipeline);
    CHECK(read.x(17, 1) == 289.0f);
    CHECK(read.x(19, 2) == -1.0f);
    CHECK(read.y(18, 1) == 181.0f);
    CHECK(read.x.padding_is(0.0f));

    const auto without_targets = numbers(3).map(
        [](const ls::Sample<const double>& in, ls::Sample<double>& out) { out.x[0] = in.y[0]; },
        {.sample_size = 1, .target_size = 0});
    CHECK(whole<float>(without_targets).x(2, 0) == 20.0f);
  }

  TEST_CASE("random augmentation: the key depends on seed, iteration, repetition, sample and map") {
    const auto random = numbers(4).map([](auto& s) {
      s.x[0] =
          static_cast<std::remove_reference_t<decltype(s.x[0])>>(ls::RandomStream(s.key).uniform());
    });
    const auto values = [](const auto& pipeline, ls::Iteration iteration) {
      const Read<double> read = whole<double>(pipeline, iteration);
      std::vector<double> all;
      for (std::size_t i = 0; i < read.x.samples(); ++i) all.push_back(read.x(i, 0));
      return all;
    };
    CHECK(values(random, {1, 0}) == values(random, {1, 0}));
    CHECK(values(random, {1, 0}) != values(random, {2, 0}));
    CHECK(values(random, {1, 0}) != values(random, {1, 1}));
    const std::vector<double> repeated = values(random.repeat(2), {1, 0});
    CHECK(std::set<double>(repeated.begin(), repeated.end()).size() == 8);

    // Whatever the order, a sample is augmented in the same way.
    auto shuffled = random.shuffle(4).batch(4);
    shuffled.begin({1, 0});
    shuffled.next();
    const Read<double> read(shuffled);
    const std::vector<double> in_order = values(random, {1, 0});
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(read.x(i, 0) == in_order[static_cast<std::size_t>(shuffled.sample_indices()[i])]);

    const auto twice = random.map([](auto& s) {
      s.y[0] =
          static_cast<std::remove_reference_t<decltype(s.y[0])>>(ls::RandomStream(s.key).uniform());
    });
    const Read<double> both = whole<double>(twice);
    CHECK(both.x(0, 0) != both.y(0, 0));
  }
}
