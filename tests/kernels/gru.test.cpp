#include "lockstep/kernels/gru.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/recurrence_testing.hpp"

namespace kernels = lockstep::kernels;

namespace {

template <bool ResetAfter>
struct Gru {
  template <class T>
  static void forward(const kernels::Recurrence<T>& r) {
    kernels::gru_forward<T, ResetAfter>(r);
  }
  template <class T>
  static void backward(const kernels::Recurrence<T>& r) {
    kernels::gru_backward<T, ResetAfter>(r);
  }
  template <class T>
  static void gradients(const kernels::Recurrence<T>& r, const kernels::RecurrentGradients<T>& to) {
    kernels::gru_gradients<T, ResetAfter>(r, to);
  }
  static constexpr auto step = [](const std::vector<double>& z, const auto& recurrent,
                                  const std::vector<double>& dropped, std::vector<double>& h,
                                  std::vector<double>&) {
    using lockstep_test::logistic;
    const std::size_t n = h.size();
    std::vector<double> update(n), reset(n), product(n), reset_state(n);
    for (std::size_t u = 0; u < n; ++u) {
      update[u] = logistic(z[u] + recurrent(u, dropped));
      reset[u] = logistic(z[n + u] + recurrent(n + u, dropped));
      reset_state[u] = reset[u] * dropped[u];
    }
    for (std::size_t u = 0; u < n; ++u)
      product[u] =
          ResetAfter ? reset[u] * recurrent(2 * n + u, dropped) : recurrent(2 * n + u, reset_state);
    for (std::size_t u = 0; u < n; ++u)
      h[u] = update[u] * h[u] + (1 - update[u]) * std::tanh(z[2 * n + u] + product[u]);
  };
};

}  // namespace

TEST_CASE("GRU kernels: states against loops in double, gradients against differences") {
  lockstep_test::check_recurrence<Gru<true>>(3, true);
  lockstep_test::check_recurrence<Gru<false>>(3);
}
