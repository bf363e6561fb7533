// Models and samples for tests of what writes a model in another format.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "lockstep/core/random.hpp"

namespace lockstep_test {

using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline RowMatrix random_matrix(Eigen::Index rows, Eigen::Index columns, std::uint64_t seed) {
  lockstep::RandomStream random{lockstep::RandomKey(seed)};
  RowMatrix values(rows, columns);
  for (Eigen::Index i = 0; i < values.size(); ++i)
    values.data()[i] = static_cast<float>(random.uniform(-1, 1));
  return values;
}

/// Gives every variable other values, so that none can be left out unnoticed.
template <class M>
void shake(M& model) {
  lockstep::RandomStream random{lockstep::RandomKey(9)};
  auto weights = model.get_weights();
  for (auto& weight : weights)
    for (float& value : weight.values) {
      const auto more = static_cast<float>(random.uniform(-0.3, 0.3));
      value = weight.name.ends_with("variance") ? 1 + more : value + more;
    }
  model.set_weights(weights);
}

}  // namespace lockstep_test
