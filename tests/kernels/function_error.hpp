// How far a function of a Pack is from the exact one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "lockstep/kernels/sweep.hpp"

namespace lockstep_test {

/// f of each element; f takes and returns a Pack.
template <class T, class F>
std::vector<T> map(const std::vector<T>& x, const F& f) {
  std::vector<T> y(x.size());
  lockstep::kernels::sweep(
      x.size(), [=](const auto& in, auto& out) LOCKSTEP_KERNEL_LAMBDA { out = f(in); }, x.data(),
      y.data());
  return y;
}

/// The largest relative error, in units of the type's epsilon.
template <class T, class F>
double worst_ulps(const std::vector<T>& x, const std::vector<T>& y, F exact) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double expected = exact(static_cast<long double>(x[i]));
    const long double error = std::abs(static_cast<long double>(y[i]) - expected);
    if (error > 0) worst = std::max(worst, static_cast<double>(error / std::abs(expected)));
  }
  return worst / static_cast<double>(std::numeric_limits<T>::epsilon());
}

template <class T>
std::vector<T> grid(T low, T high, std::size_t n) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = low + (high - low) * static_cast<T>(i) / static_cast<T>(n - 1);
  return x;
}

}  // namespace lockstep_test
