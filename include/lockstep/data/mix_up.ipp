#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "lockstep/data/mix_up.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

// As two gamma variables: Marsaglia, Tsang, "A simple method for generating gamma variables", 2000.
// In logarithms, since those of a small alpha are tiny.
LOCKSTEP_INLINE double symmetric_beta(RandomStream& random, double alpha) {
  const auto log_gamma_variable = [&] {
    const double d = alpha + 1 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = random.normal();
      const double root = 1 + c * x, u = 1 - random.uniform();
      if (root <= 0) continue;
      const double v = root * root * root;
      if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v))
        return std::log(d * v) + std::log(1 - random.uniform()) / alpha;
    }
  };
  const double a = log_gamma_variable(), b = log_gamma_variable();
  return 1 / (1 + std::exp(b - a));
}

LOCKSTEP_INLINE void pair_samples(ElementSpan own, RandomKey key, ElementBatch& pairs) {
  const std::size_t count = own.indices.size();
  RandomStream random(key);
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  for (std::size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(i))]);
  pairs.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const Element parts[] = {
        own.element(i), own.element(order[i]), {.pass = key.fold_in(i).value()}};
    pairs.push_back(own.indices[i], rekeyed(own.passes[i], "MixUp"), parts);
  }
}

LOCKSTEP_INLINE void draw_weights(ElementSpan pairs, double alpha, std::vector<double>& weights) {
  weights.resize(pairs.parts.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    RandomStream random(RandomKey(pairs.parts[i][2].pass));
    weights[i] = symmetric_beta(random, alpha);
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
