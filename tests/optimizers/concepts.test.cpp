#include "lockstep/optimizers/concepts.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <string_view>

#include "optimizers/optimizer_testing.hpp"

namespace ls = lockstep;

namespace {

// A user's own optimizer.
struct SignDescent {
  double learning_rate = 0.1;

  static constexpr std::string_view name = "SignDescent";
  std::string description() const { return "SignDescent"; }
  std::size_t slots() const { return 0; }

  template <class T>
  void update(const ls::UpdateContext& context, std::span<T> parameters,
              std::span<const T> gradients, std::span<T* const>) const {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i] -= std::copysign(static_cast<T>(context.learning_rate), gradients[i]);
  }
};
static_assert(ls::Optimizer<SignDescent, float> && ls::Optimizer<SignDescent, double>);

// Near misses, each of a model of the concept.
struct Model {
  double learning_rate = 0.1;
  static constexpr std::string_view name = "model";
  std::string description() const;
  std::size_t slots() const;
  void update(const ls::UpdateContext&, std::span<float>, std::span<const float>,
              std::span<float* const>) const;
};
static_assert(ls::Optimizer<Model, float>);
static_assert(!ls::Optimizer<Model, double>);

struct Nameless : Model {
  void name();
};
struct Undescribed : Model {
  void description() const;
};
struct RateIsText : Model {
  std::string learning_rate;
};
struct NoSlots : Model {
  void slots() const;
};
struct SlotsNotConst : Model {
  std::size_t slots();
};
struct UpdateNotConst : Model {
  void update(const ls::UpdateContext&, std::span<float>, std::span<const float>,
              std::span<float* const>);
};
struct ChangesGradients : Model {
  void update(const ls::UpdateContext&, std::span<float>, std::span<float>,
              std::span<float* const>) const;
};
struct UpdateWithoutSlots : Model {
  void update(const ls::UpdateContext&, std::span<float>, std::span<const float>) const;
};
static_assert(!ls::Optimizer<Nameless>);
static_assert(!ls::Optimizer<Undescribed>);
static_assert(!ls::Optimizer<RateIsText>);
static_assert(!ls::Optimizer<NoSlots>);
static_assert(!ls::Optimizer<SlotsNotConst>);
static_assert(!ls::Optimizer<UpdateNotConst>);
static_assert(!ls::Optimizer<ChangesGradients>);
static_assert(!ls::Optimizer<UpdateWithoutSlots>);

}  // namespace

TEST_CASE("a user's own optimizer passes what every optimizer must pass") {
  const double start[] = {1, 2}, gradients[] = {0.5, -0.25}, expected[] = {0.9, 2.1};
  lockstep_test::check_trajectory(SignDescent{}, start, gradients, expected);
  lockstep_test::check_partition_independence(SignDescent{});
}
