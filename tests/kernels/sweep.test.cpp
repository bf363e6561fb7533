#include "lockstep/kernels/sweep.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "support/instruction_sets.hpp"

namespace ls = lockstep;
namespace kernels = lockstep::kernels;

namespace {

template <class T>
void check_sweep() {
  for (const std::size_t n : {0u, 1u, 3u, 4u, 15u, 16u, 17u, 100u, 1027u}) {
    CAPTURE(n);
    std::vector<T> a(n), b(n), c(n);
    for (std::size_t i = 0; i < n; ++i)
      a[i] = static_cast<T>(i % 7), b[i] = static_cast<T>(i % 5) - 2, c[i] = T(1);
    kernels::sweep(
        n,
        [](const auto& x, const auto& y, auto& z)
            LOCKSTEP_KERNEL_LAMBDA { z = select(y < T(0), -z, z) + sqrt(x) / T(2) + max(y, T(1)); },
        static_cast<const T*>(a.data()), static_cast<const T*>(b.data()), c.data());
    bool right = true;
    for (std::size_t i = 0; i < n; ++i) {
      const T expected = (b[i] < 0 ? T(-1) : T(1)) + std::sqrt(a[i]) / 2 + std::max(b[i], T(1));
      if (std::abs(c[i] - expected) > std::numeric_limits<T>::epsilon() * 4) right = false;
    }
    CHECK(right);
  }
}

template <class T>
void check_sum() {
  for (const std::size_t n : {0u, 1u, 15u, 16u, 17u, 1023u, 1024u, 1025u, 5000u}) {
    CAPTURE(n);
    std::vector<T> a(n);
    std::iota(a.begin(), a.end(), T(1));
    const double sum = kernels::sweep_sum(
        n, [](const auto& x) LOCKSTEP_KERNEL_LAMBDA { return x + T(1); }, a.data());
    CHECK(sum ==
          doctest::Approx(static_cast<double>(n) * static_cast<double>(n + 3) / 2).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("sweep: every element, whatever the length") {
  lockstep_test::for_each_instruction_set([] {
    check_sweep<float>();
    check_sweep<double>();
  });
}

TEST_CASE("sweep: an element's result does not depend on how the range is split") {
  lockstep_test::for_each_instruction_set([] {
    constexpr std::size_t n = 333;
    std::vector<float> whole(n), split(n), g(n);
    for (std::size_t i = 0; i < n; ++i) {
      whole[i] = split[i] = std::sin(static_cast<float>(i));
      g[i] = std::cos(static_cast<float>(i) * 1.7f);
    }
    const auto f = [](auto& p, const auto& x) LOCKSTEP_KERNEL_LAMBDA {
      p -= 0.1f * x * x / (sqrt(abs(x)) + 0.3f * p * p);
    };
    kernels::sweep(n, f, whole.data(), static_cast<const float*>(g.data()));
    for (std::size_t i = 0; i < n;) {
      const std::size_t part = std::min<std::size_t>(i % 37 + 1, n - i);
      kernels::sweep(part, f, split.data() + i, static_cast<const float*>(g.data() + i));
      i += part;
    }
    CHECK(whole == split);
  });
}

TEST_CASE("sweep_sum: every element, whatever the length") {
  lockstep_test::for_each_instruction_set([] {
    check_sum<float>();
    check_sum<double>();
  });
}
