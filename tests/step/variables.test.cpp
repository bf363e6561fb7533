#include "lockstep/step/variables.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "golden/optimizers.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/layers/initializers.hpp"
#include "support/instruction_sets.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
namespace golden = lockstep_test::golden;
using namespace lockstep_test;

namespace {

using Variables = ls::detail::Variables<float>;

const ls::detail::Compiled<TinyNet, float, ls::SparseCategoricalCrossentropy, ls::Adam> program(
    {}, {.learning_rate = 0.125}, {});

void fill(const Variables& variables, std::uint64_t seed) {
  ls::detail::initialize<float>(program.layout().variables, variables.parameters().slices(),
                                ls::RandomKey(seed));
}

}  // namespace

TEST_CASE("initialize: by seed and place alone; no initializer means zero") {
  const Variables a(program), b(program), c(program);
  fill(a, 1);
  fill(b, 1);
  fill(c, 2);
  CHECK(a.parameters_crc32c() == b.parameters_crc32c());
  CHECK(a.parameters_crc32c() != c.parameters_crc32c());
  const auto slices = a.parameters().slices();
  CHECK(slices[0][0] != slices[2][0]);  // each variable has a stream of its own
  for (const float value : slices[1]) CHECK(value == 0);
  for (const float value : slices[0]) CHECK(std::abs(value) <= 0.5);
}

TEST_CASE("initialize: what a uniform initializer draws one by one, bit by bit") {
  for (const std::size_t size : {0u, 1u, 511u, 513u, 1030u}) {
    const ls::Variable variable{"kernel", {size}, ls::glorot_uniform, {.in = 3, .out = 5}};
    std::vector<float> values(size), drawn(size);
    const std::span<float> slice(values);
    ls::detail::initialize<float>({&variable, 1}, {&slice, 1}, ls::RandomKey(4));
    ls::RandomStream random(ls::RandomKey(4).fold_in(0));
    for (float& value : drawn)
      value = static_cast<float>(variable.initializer(random, variable.fans));
    CHECK(values == drawn);
  }
}

TEST_CASE("parameters_crc32c: every bit counts, and the zeros between the arrays do not") {
  Variables variables(program);
  fill(variables, 1);
  const std::uint32_t before = variables.parameters_crc32c();
  for (const auto slice : variables.parameters().slices())
    for (float& value : slice) {
      const float kept = value;
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1);
      CHECK(variables.parameters_crc32c() != before);
      value = kept;
    }
  variables.parameters().values()[3 + 1] = 5;  // behind the last bias of 3
  CHECK(variables.parameters_crc32c() == before);
}

TEST_CASE("Variables: start with the optimizer's learning rate and slots, and no update") {
  const Variables variables(program);
  CHECK(variables.learning_rate() == 0.125);
  CHECK(variables.iterations == 0);
  CHECK(variables.next_pass == 0);
  REQUIRE(variables.slots().size() == 2);
  for (const auto& slot : variables.slots())
    CHECK(slot.values().size() == variables.parameters().values().size());
  for (const float value : variables.parameters().values()) CHECK(value == 0);
}

TEST_CASE("Variables: the parameters can get other memory, and change places with an arena") {
  Variables variables(program);
  std::vector<std::size_t> asked;
  variables.allocate_parameters([&](std::size_t bytes) {
    CHECK(variables.parameters().values().empty());  // a large model has no memory for both
    asked.push_back(bytes);
    return ls::Buffer(bytes);
  });
  CHECK(asked == std::vector<std::size_t>{variables.parameters().values().size_bytes()});
  fill(variables, 1);
  const float* const memory = variables.parameters().values().data();
  const std::uint32_t before = variables.parameters_crc32c();
  ls::Arena<float> arena(program.layout().variables);
  variables.swap_parameters(arena);
  CHECK(arena.values().data() == memory);
  CHECK(variables.parameters_crc32c() != before);
  variables.swap_parameters(arena);
  CHECK(variables.parameters_crc32c() == before);
}

TEST_CASE("Variables: the parts of an update make the whole") {
  const std::size_t size = Variables(program).parameters().values().size();
  std::vector<float> gradients(size);
  for (std::size_t i = 0; i < size; ++i) gradients[i] = static_cast<float>(i);
  const auto updated = [&](std::size_t parts) {
    Variables variables(program);
    fill(variables, 1);
    for (std::size_t index = 0; index < parts; ++index) {
      const auto [begin, count] = variables.parameters().part(index, parts);
      variables.update(variables.parameters().values().subspan(begin, count),
                       std::span<const float>(gradients).subspan(begin, count), begin, 10, 7);
    }
    std::vector<float> all;
    for (const auto values : {variables.parameters().values(), variables.slots()[0].values(),
                              variables.slots()[1].values()})
      all.insert(all.end(), values.begin(), values.end());
    return all;
  };
  const std::vector<float> whole = updated(1);
  CHECK(whole[5] != 0);
  CHECK(whole[size + 5] ==
        doctest::Approx(0.1 * 5 / 10));  // Adam's first moment: the mean over 10 samples
  for (const std::size_t parts : {2u, 3u, 5u}) CHECK(updated(parts) == whole);
}

TEST_CASE("Variables: an update knows the learning rate of the one before") {
  const ls::detail::Compiled<TinyNet, float, ls::SparseCategoricalCrossentropy, ls::SGD> momentum(
      {},
      {.learning_rate = 1,
       .momentum = 0.5,
       .momentum_form = ls::MomentumForm::pytorch,
       .learning_rate_factors = {{.variables = {"kernel"}, .factor = 2}}},
      {});
  Variables variables(momentum);
  const std::vector<float> gradients(variables.parameters().values().size(), 1.0F);
  const auto update = [&](bool makes_update) {
    if (makes_update)
      variables.update(variables.parameters().values(), gradients, 0, 1, variables.iterations + 1);
    variables.complete_update(variables.iterations + 1, makes_update);
    return variables.slots()[0].slices()[0][0];
  };
  CHECK(update(true) == -2);
  CHECK(variables.previous_learning_rate == 1);
  variables.set_learning_rate(0.25);
  CHECK(update(false) == -2);
  CHECK(variables.iterations == 2);
  CHECK(variables.previous_learning_rate == 1);
  CHECK(update(true) == -0.75);
  CHECK(variables.previous_learning_rate == 0.25);
}

TEST_CASE("Variables: an update is cut where the rules change, and nowhere else") {
  using Net = ls::Sequential<ls::Input<4>, ls::Dense<4>, ls::Dense<4>, ls::Dense<3>>;
  const auto compiled = [](ls::AdamW optimizer) {
    return ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, ls::AdamW>(
        {}, std::move(optimizer), {});
  };
  const auto begins = [](const Variables& variables) {
    std::vector<std::size_t> list;
    for (const auto& range : variables.ranges()) list.push_back(range.begin);
    return list;
  };
  const auto plain = compiled({});
  CHECK(begins(Variables(plain)) == std::vector<std::size_t>{0});
  const auto last_layer = compiled({.exclude_from_weight_decay = {"dense_2"}});
  CHECK(begins(Variables(last_layer)) == std::vector<std::size_t>{0, 32});

  // In the arena: bias 3, kernel 4 x 3, bias 4, kernel 4 x 4, bias 4, kernel 4 x 4, each a multiple
  // of 16.
  const auto ruled =
      compiled({.learning_rate = 0.5,
                .weight_decay = 0.125,
                .exclude_from_weight_decay = ls::fewer_dimensions_than(2),
                .learning_rate_factors = {{.variables = {"dense_1"}, .factor = 0.5}}});
  const std::size_t size = Variables(ruled).parameters().values().size();
  for (const std::size_t parts : {1u, 2u, 3u, 6u}) {
    Variables variables(ruled);
    CHECK(begins(variables) == std::vector<std::size_t>{0, 16, 32, 48, 64, 80});
    for (const auto slice : variables.parameters().slices()) std::ranges::fill(slice, 1.0F);
    const std::vector<float> gradients(size);  // zeros: decay alone
    for (std::size_t index = 0; index < parts; ++index) {
      const auto [begin, count] = variables.parameters().part(index, parts);
      variables.update(variables.parameters().values().subspan(begin, count),
                       std::span<const float>(gradients).subspan(begin, count), begin, 1, 1);
    }
    const auto slices = variables.parameters().slices();
    const float expected[] = {1 - 0.5F * 0.125F, 1, 1 - 0.25F * 0.125F, 1, 1 - 0.5F * 0.125F, 1};
    for (std::size_t i = 0; i < 6; ++i)
      for (const float value : slices[i]) REQUIRE(value == expected[i]);
  }
}

namespace {

/// Ten updates of two variables of three elements each, as in the golden trajectories.
template <class T>
std::vector<double> ten_updates(const ls::SGD& optimizer) {
  using Net = ls::Sequential<ls::Input<1>, ls::Dense<3>>;
  const ls::detail::Compiled<Net, T, ls::SparseCategoricalCrossentropy, ls::SGD> two({}, optimizer,
                                                                                     {});
  ls::detail::Variables<T> variables(two);
  const auto fill_both = [](const ls::Arena<T>& arena, const double* values) {
    for (std::size_t i = 0; i < 6; ++i) arena.slices()[i / 3][i % 3] = static_cast<T>(values[i]);
  };
  fill_both(variables.parameters(), golden::keras_start);
  const ls::Arena<T> gradients(two.layout().variables);
  for (std::size_t step = 0; step < 10; ++step) {
    std::vector<double> sums;  // of two samples
    for (std::size_t i = 0; i < 6; ++i) sums.push_back(2 * golden::keras_gradients[7 * step + i]);
    fill_both(gradients, sums.data());
    for (const std::size_t part : {2u, 0u, 1u})
      variables.norms().compute_part(std::span<const T>(gradients.values()), part, 3);
    variables.update(variables.parameters().values(), gradients.values(), 0, 2,
                     static_cast<std::int64_t>(step) + 1);
  }
  std::vector<double> result;
  for (const auto slice : variables.parameters().slices())
    result.insert(result.end(), slice.begin(), slice.end());
  if (variables.has_averages())
    for (const auto slice : variables.slots().back().slices())
      result.insert(result.end(), slice.begin(), slice.end());
  return result;
}

void check_golden(const ls::SGD& optimizer, std::span<const double> expected, double tolerance) {
  const auto doubles = ten_updates<double>(optimizer), floats = ten_updates<float>(optimizer);
  REQUIRE(expected.size() == doubles.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(doubles[i] == doctest::Approx(expected[i]).epsilon(tolerance));
    CHECK(floats[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

}  // namespace

TEST_CASE("Variables: golden trajectories of gradients that are clipped") {
  const double of_norm = 1e-6;  // Keras computes norms in float
  check_golden({.learning_rate = 0.1, .momentum = 0.9, .clipnorm = 1.5}, golden::keras_clipnorm,
               of_norm);
  check_golden({.learning_rate = 0.1, .momentum = 0.9, .clipvalue = 0.5}, golden::keras_clipvalue,
               1e-12);
  check_golden({.learning_rate = 0.1, .momentum = 0.9, .global_clipnorm = 2},
               golden::keras_global_clipnorm, of_norm);
}

TEST_CASE("Variables: golden trajectories with moving averages") {
  ls::SGD sgd{.learning_rate = 0.1, .momentum = 0.9, .use_ema = true, .ema_momentum = 0.8};
  check_golden(sgd, golden::keras_ema, 1e-12);
  sgd.ema_overwrite_frequency = 3;
  check_golden(sgd, golden::keras_ema_overwriting, 1e-12);
}

TEST_CASE("Variables: the upstream example of averages that overwrite weights, and swaps") {
  const ls::detail::Compiled<ls::Sequential<ls::Input<1>, ls::Dense<3>>, double,
                             ls::SparseCategoricalCrossentropy, ls::SGD>
      program_of_averages(
          {},
          {.learning_rate = 1, .use_ema = true, .ema_momentum = 0.9, .ema_overwrite_frequency = 3},
          {});
  ls::detail::Variables<double> variables(program_of_averages);
  double& w = variables.parameters().slices()[0][0];
  const double& average = variables.slots()[0].slices()[0][0];
  const std::vector<double> ones(variables.parameters().values().size(), 1.0);
  w = 3;
  variables.swap_averages();  // before the first update
  CHECK(variables.shows_averages());
  CHECK(w == 3);
  variables.swap_averages();
  CHECK(w == 3);
  const double expected[][2] = {{2, 2}, {1, 1.9}, {1.71, 1.71}};
  for (const auto& [weight, mean] : expected) {
    variables.update(variables.parameters().values(), ones, 0, 1, variables.iterations + 1);
    variables.complete_update(variables.iterations + 1, true);
    CHECK(w == doctest::Approx(weight).epsilon(1e-12));
    CHECK(average == doctest::Approx(mean).epsilon(1e-12));
    const double kept = w;
    variables.swap_averages();
    CHECK(w == doctest::Approx(mean).epsilon(1e-12));
    CHECK(average == kept);
    variables.swap_averages();
    CHECK(w == kept);
  }
  variables.swap_averages();
  variables.take_averages();
  CHECK_FALSE(variables.shows_averages());
  CHECK(w == average);
}

TEST_CASE("Variables: a gradient that is not finite, clipped") {
  using Net = ls::Sequential<ls::Input<1>, ls::Dense<3>>;
  constexpr float infinity = std::numeric_limits<float>::infinity(),
                  nan = std::numeric_limits<float>::quiet_NaN();
  // How many of the three elements of kernel and bias are NaN after an update; one of the kernel's
  // gradient is `bad`.
  const auto spoiled = [](const ls::SGD& optimizer, float bad) {
    const ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, ls::SGD> two(
        {}, optimizer, {});
    ls::detail::Variables<float> variables(two);
    const ls::Arena<float> gradients(two.layout().variables);
    gradients.slices()[0][1] = bad;
    gradients.slices()[1][1] = 1;
    variables.norms().compute_part(std::span<const float>(gradients.values()), 0, 1);
    variables.update(variables.parameters().values(), gradients.values(), 0, 1, 1);
    std::vector<std::ptrdiff_t> counts;
    for (const auto slice : variables.parameters().slices())
      counts.push_back(std::ranges::count_if(slice, [](float value) { return std::isnan(value); }));
    return counts;
  };
  using Counts = std::vector<std::ptrdiff_t>;
  for (const float bad : {infinity, nan})
    CHECK(spoiled({.global_clipnorm = 1}, bad) == Counts{3, 3});
  CHECK(spoiled({.clipnorm = 1}, nan) == Counts{3, 0});
  CHECK(spoiled({.clipnorm = 1}, infinity) == Counts{1, 0});
  CHECK(spoiled({.clipvalue = 1}, nan) == Counts{1, 0});
  CHECK(spoiled({.clipvalue = 1}, infinity) == Counts{0, 0});
}

TEST_CASE("Variables: an update that is clipped by value does not depend on how it is cut") {
  const ls::detail::Compiled<ls::Sequential<ls::Input<100>, ls::Dense<50>>, float,
                             ls::SparseCategoricalCrossentropy, ls::AdamW>
      large({}, {.clipvalue = 0.01}, {});
  const auto updated = [&](std::size_t parts) {
    Variables variables(large);
    std::vector<float> gradients(variables.parameters().values().size());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i] = std::sin(static_cast<float>(i));
    for (std::size_t index = 0; index < parts; ++index) {
      const auto [begin, count] = variables.parameters().part(index, parts);
      variables.update(variables.parameters().values().subspan(begin, count),
                       std::span<const float>(gradients).subspan(begin, count), begin, 10, 1);
    }
    return std::vector<float>(variables.parameters().values().begin(),
                              variables.parameters().values().end());
  };
  const std::vector<float> whole = updated(1);
  CHECK(whole[5] != 0);
  for (const std::size_t parts : {2u, 3u, 7u}) CHECK(updated(parts) == whole);
}

namespace {

const std::vector<ls::Variable> variables{
    {"a", {3}, nullptr}, {"b", {50'000}, nullptr}, {"c", {16'384}, nullptr}};

}  // namespace

TEST_CASE("GradientNorms: of all variables, and of each") {
  const ls::Arena<float> arena(variables);
  for (const auto slice : arena.slices()) slice[0] = slice[slice.size() - 1] = 3;
  arena.slices()[0][1] = 1e-30F;  // its square is no float
  arena.slices()[1][20'000] = 1e30F;
  ls::detail::GradientNorms norms(arena);
  norms.compute_part(std::span<const float>(arena.values()), 0, 1);
  CHECK(norms.norm() == doctest::Approx(1e30));
  // In the arena: c, b, a.
  CHECK(norms.norm(0, 16'384) == std::sqrt(18.0));
  CHECK(norms.norm(16'384, 16'384 + 50'000) == doctest::Approx(1e30));
  CHECK(norms.norm(16'384 + 50'000) == std::sqrt(18.0));
}

TEST_CASE(
    "GradientNorms: the bits do not depend on how many compute it, nor on the instruction set") {
  const ls::Arena<float> arena(variables);
  for (std::size_t i = 0; i < arena.slices().size(); ++i)
    for (std::size_t k = 0; k < arena.slices()[i].size(); ++k)
      arena.slices()[i][k] = std::sin(static_cast<float>(k)) * static_cast<float>(i + 1);
  ls::detail::GradientNorms whole(arena);
  whole.compute_part(std::span<const float>(arena.values()), 0, 1);
  CHECK(whole.norm() ==
        doctest::Approx(std::sqrt(0.5 * (3 + 4 * 50'000 + 9 * 16'384))).epsilon(1e-3));
  lockstep_test::for_each_instruction_set([&] {
    for (const std::size_t parts : {1u, 2u, 3u, 7u}) {
      ls::detail::GradientNorms norms(arena);
      for (std::size_t part = parts; part > 0; --part)
        norms.compute_part(std::span<const float>(arena.values()), part - 1, parts);
      CHECK(norms.norm() == whole.norm());
    }
  });
}

TEST_CASE("UpdateShares: what of a range is others'") {
  ls::detail::UpdateShares shares;
  shares.add({{16, 16}, {64, 32}});
  shares.add({{0, 16}, {32, 32}});
  const auto others = [&](int worker, std::size_t begin, std::size_t size) {
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    shares.each_other(worker, begin, size, [&](std::size_t first, std::size_t count) {
      ranges.emplace_back(first, count);
    });
    return ranges;
  };
  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;
  CHECK(others(0, 0, 96) == Ranges{{0, 16}, {32, 32}});
  CHECK(others(1, 0, 100) == Ranges{{16, 16}, {64, 36}});
  CHECK(others(0, 20, 50) == Ranges{{32, 32}});
  CHECK(others(0, 70, 10) == Ranges{});
  CHECK(others(1, 20, 5) == Ranges{{20, 5}});
  CHECK(others(1, 8, 4) == Ranges{});
}

TEST_CASE("GradientNorms: computed as ranges become ready, by several, they are those of all") {
  const std::array two_arrays{ls::Variable{"a", {70'001}, ls::ones},
                              ls::Variable{"b", {40'000}, ls::ones}};
  ls::Arena<float> gradients(two_arrays);
  for (std::size_t i = 0; i < gradients.values().size(); ++i)
    gradients.values()[i] = static_cast<float>(i % 97) - 40;
  ls::detail::GradientNorms whole(gradients), ranged(gradients);
  const std::span<const float> values = gradients.values();
  whole.compute_part(values, 0, 1);
  for (const std::size_t index : {0u, 1u}) {
    std::size_t done = 0;
    for (std::size_t end = 10'000; done < values.size(); end += 10'000)
      done = ranged.compute_between(values, done, std::min(end, values.size()), index, 2);
  }
  CHECK(ranged.norm() == whole.norm());
  CHECK(ranged.norm(0, 40'000) == whole.norm(0, 40'000));
}
