#include "lockstep/kernels/lstm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/recurrence_testing.hpp"

namespace kernels = lockstep::kernels;

namespace {

struct Lstm {
  template <class T>
  static void forward(const kernels::Recurrence<T>& r) {
    kernels::lstm_forward<T>(r);
  }
  template <class T>
  static void backward(const kernels::Recurrence<T>& r) {
    kernels::lstm_backward<T>(r);
  }
  template <class T>
  static void gradients(const kernels::Recurrence<T>& r, const kernels::RecurrentGradients<T>& to) {
    kernels::recurrent_gradients<T>(r, to);
  }
  static constexpr auto step = [](std::vector<double> z, const auto& recurrent,
                                  const std::vector<double>& dropped, std::vector<double>& h,
                                  std::vector<double>& c) {
    for (std::size_t g = 0; g < z.size(); ++g) z[g] += recurrent(g, dropped);
    const std::size_t n = h.size();
    for (std::size_t u = 0; u < n; ++u) {
      c[u] = lockstep_test::logistic(z[n + u]) * c[u] +
             lockstep_test::logistic(z[u]) * std::tanh(z[2 * n + u]);
      h[u] = lockstep_test::logistic(z[3 * n + u]) * std::tanh(c[u]);
    }
  };
};

}  // namespace

TEST_CASE("LSTM kernels: states against loops in double, gradients against differences") {
  lockstep_test::check_recurrence<Lstm>(4);
}
