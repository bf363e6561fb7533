// What tests of metrics share.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "golden/keras_metrics.hpp"
#include "lockstep/metrics/concepts.hpp"
#include "support/tensor.hpp"

namespace lockstep_test {

/// The state after one update.
template <class Metric, class T>
std::vector<double> state_of(const Metric& metric, const Tensor<T>& predictions,
                             const Tensor<T>& targets, const std::vector<T>& weights = {}) {
  std::vector<double> state(lockstep::detail::state_size_of(metric, predictions.features()));
  metric.update(predictions.cview(), targets.cview(), std::span<const T>(weights),
                std::span<double>(state));
  return state;
}

template <class Metric, class T>
double figure(const Metric& metric, const Tensor<T>& predictions, const Tensor<T>& targets,
              const std::vector<T>& weights = {}) {
  return metric.result(state_of(metric, predictions, targets, weights));
}

/// The rows [begin, end).
template <class T>
Tensor<T> rows_of(const Tensor<T>& all, std::size_t begin, std::size_t end) {
  Tensor<T> part(end - begin, all.features());
  for (std::size_t row = begin; row < end; ++row)
    for (std::size_t f = 0; f < all.features(); ++f) part(row - begin, f) = all(row, f);
  return part;
}

/// Keras's figures, without and with weights, in float and double; the states of parts add up to
/// that of all; a row without weight does not count, and without rows the figure is 0.
template <class Metric, std::size_t P, std::size_t Y>
void check_metric(const Metric& metric, const double (&predictions)[P], const double (&targets)[Y],
                  std::span<const double> expected) {
  constexpr std::size_t rows = golden::keras::metric_rows;
  const auto check = [&]<class T>(T) {
    const Tensor<T> p(rows, P / rows, predictions), y(rows, Y / rows, targets);
    std::vector<T> weights;
    for (const double weight : golden::keras::metric_weights)
      weights.push_back(static_cast<T>(weight));
    CHECK(figure(metric, p, y) ==
          doctest::Approx(expected.front()).epsilon(1e-6));  // Keras's are in float
    CHECK(figure(metric, p, y, weights) == doctest::Approx(expected.back()).epsilon(1e-6));

    std::vector<double> sum(lockstep::detail::state_size_of(metric, p.features()));
    for (std::size_t begin = 0; begin < rows; begin += 17) {
      const std::size_t end = begin + 17 < rows ? begin + 17 : rows;
      const std::vector<T> part(weights.begin() + static_cast<std::ptrdiff_t>(begin),
                                weights.begin() + static_cast<std::ptrdiff_t>(end));
      const std::vector<double> more =
          state_of(metric, rows_of(p, begin, end), rows_of(y, begin, end), part);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
    }
    CHECK(metric.result(sum) == doctest::Approx(expected.back()).epsilon(1e-6));

    const std::vector<T> none(rows, T(0));
    CHECK(figure(metric, p, y, none) == 0);
    CHECK(figure(metric, Tensor<T>(0, p.features()), Tensor<T>(0, y.features())) == 0);
  };
  check(double{});
  check(float{});
}

}  // namespace lockstep_test
