#include "lockstep/metrics/concepts.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "lockstep/core/tensor_matrix.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
using lockstep_test::Tensor;

namespace {

// A user's own metric.
struct RootMeanSquaredError {
  static constexpr std::string_view name = "root_mean_squared_error";
  static constexpr std::size_t state_size = 2;

  template <class T>
  void update(ls::TensorView<const T> predictions, ls::TensorView<const T> targets,
              std::span<const T>, std::span<double> state) const {
    state[0] += static_cast<double>((predictions.matrix() - targets.matrix()).squaredNorm());
    state[1] += static_cast<double>(predictions.samples() * predictions.features());
  }
  double result(std::span<const double> state) const {
    return state[1] > 0 ? std::sqrt(state[0] / state[1]) : 0;
  }
};
static_assert(ls::Metric<RootMeanSquaredError, float> && ls::Metric<RootMeanSquaredError, double>);

// Near misses, each of a model of the concept.
struct Model {
  static constexpr std::string_view name = "model";
  static constexpr std::size_t state_size = 1;
  void update(ls::TensorView<const float>, ls::TensorView<const float>, std::span<const float>,
              std::span<double>) const;
  double result(std::span<const double>) const;
};
static_assert(ls::Metric<Model, float>);
static_assert(!ls::Metric<Model, double>);

struct Nameless : Model {
  static constexpr int name = 0;
};
struct NoStateSize : Model {
  static constexpr std::string_view state_size = "2";
};
struct UpdateNotConst : Model {
  void update(ls::TensorView<const float>, ls::TensorView<const float>, std::span<const float>,
              std::span<double>);
};
struct FloatState : Model {
  void update(ls::TensorView<const float>, ls::TensorView<const float>, std::span<const float>,
              std::span<float>) const;
};
struct ResultChangesState : Model {
  double result(std::span<double>) const;
};
struct NoResult : Model {
  void result(std::span<const double>) const;
};
static_assert(!ls::Metric<Nameless>);
static_assert(!ls::Metric<NoStateSize>);
static_assert(!ls::Metric<UpdateNotConst>);
static_assert(!ls::Metric<FloatState>);
static_assert(!ls::Metric<ResultChangesState>);
static_assert(!ls::Metric<NoResult>);

}  // namespace

TEST_CASE("a user's own metric") {
  const Tensor<float> predictions(2, 2, std::vector<float>{1, 2, 3, 4}),
      targets(2, 2, std::vector<float>{1, 2, 3, 0});
  std::array<double, 2> state{};
  const RootMeanSquaredError metric;
  CHECK(metric.result(state) == 0.0);
  metric.update(predictions.cview(), targets.cview(), {}, std::span<double>(state));
  CHECK(metric.result(state) == 2.0);
}
