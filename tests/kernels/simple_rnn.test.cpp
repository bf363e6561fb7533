#include "lockstep/kernels/simple_rnn.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/recurrence_testing.hpp"

namespace kernels = lockstep::kernels;

namespace {

struct SimpleRnn {
  template <class T>
  static void forward(const kernels::Recurrence<T>& r) {
    kernels::simple_rnn_forward<T>(r);
  }
  template <class T>
  static void backward(const kernels::Recurrence<T>& r) {
    kernels::simple_rnn_backward<T>(r);
  }
  template <class T>
  static void gradients(const kernels::Recurrence<T>& r, const kernels::RecurrentGradients<T>& to) {
    kernels::recurrent_gradients<T>(r, to);
  }
  static constexpr auto step = [](const std::vector<double>& z, const auto& recurrent,
                                  const std::vector<double>& dropped, std::vector<double>& h,
                                  std::vector<double>&) {
    for (std::size_t u = 0; u < h.size(); ++u) h[u] = std::tanh(z[u] + recurrent(u, dropped));
  };
};

}  // namespace

TEST_CASE("SimpleRNN kernels: states against loops in double, gradients against differences") {
  lockstep_test::check_recurrence<SimpleRnn>(1);
}
