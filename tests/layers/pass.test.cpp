#include "lockstep/layers/pass.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/core/tensor_matrix.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/concepts.hpp"
#include "support/tensor.hpp"

namespace ls = lockstep;
using lockstep_test::Tensor;

namespace {

double one(ls::RandomStream&, ls::Fans) { return 1; }

// The minimal model in the documentation of the Layer concept.
struct Scale {  // y = factor * x, one factor per feature
  static constexpr std::string_view name = "scale";
  template <class In>
  using Output = In;
  template <class In>
  static constexpr std::array variables{ls::Variable{"factor", {In::size}, one}};
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& p) {
    for (std::size_t f = 0; f < In::size; ++f) {
      const auto column = static_cast<Eigen::Index>(f);
      p.y.matrix().col(column) = p.weights[0][f] * p.x.matrix().col(column);
    }
  }
  template <class In, class T>
  static void backward(const ls::BackwardPass<T>& p) {
    for (std::size_t f = 0; f < In::size; ++f) {
      const auto column = static_cast<Eigen::Index>(f);
      p.gradients[0][f] = p.dy.matrix().col(column).dot(p.x.matrix().col(column));
      p.dx.matrix().col(column) = p.weights[0][f] * p.dy.matrix().col(column);
    }
  }
};
static_assert(ls::Layer<Scale, ls::Shape<2>> && Scale::variables<ls::Shape<2>>[0].size() == 2);

}  // namespace

TEST_CASE_TEMPLATE("a layer can be called by hand, with what ForwardPass and BackwardPass give it",
                   T, float, double) {
  std::vector<T> factor{2, -3}, gradient{99, 99};
  const std::array<std::span<T>, 1> weights{factor}, gradients{gradient};
  const Tensor<T> x(3, 2, std::vector<int>{1, 2, 3, 4, 5, 6}), y(3, 2), dx(3, 2);
  const Tensor<T> dy(3, 2, std::vector<int>{1, 1, 10, 0, 0, 100});
  const ls::StepContext context{.training = true};

  Scale::forward<ls::Shape<2>, T>({.context = context,
                                   .weights = weights,
                                   .state = {},
                                   .x = x.cview(),
                                   .y = y.view(),
                                   .scratch = {}});
  CHECK(y.view().matrix() == Eigen::Matrix<T, 3, 2>{{2, -6}, {6, -12}, {10, -18}});

  Scale::backward<ls::Shape<2>, T>({.context = context,
                                    .weights = weights,
                                    .state = {},
                                    .x = x.cview(),
                                    .y = y.cview(),
                                    .dy = dy.view(),
                                    .dx = dx.view(),
                                    .gradients = gradients,
                                    .scratch = {}});
  CHECK(gradient == std::vector<T>{1 * 1 + 3 * 10, 2 * 1 + 6 * 100});
  CHECK(dx.view().matrix() == Eigen::Matrix<T, 3, 2>{{2, -3}, {20, 0}, {0, -300}});
}
