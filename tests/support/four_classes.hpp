// Samples of four classes, for programs that tests start.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "lockstep/core/random.hpp"

namespace lockstep_test {

/// 100 rows of 16 numbers, and the class of each, which the first three numbers decide.
struct FourClasses {
  static constexpr std::int64_t samples = 100;
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> x{samples, 16};
  std::vector<std::int32_t> y;

  FourClasses() {
    lockstep::RandomStream random(lockstep::RandomKey(5));
    for (std::int64_t i = 0; i < samples; ++i) {
      for (int j = 0; j < 16; ++j) x(i, j) = static_cast<float>(random.uniform(-1, 1));
      y.push_back((x(i, 0) > 0 ? 2 : 0) + (x(i, 1) > x(i, 2) ? 1 : 0));
    }
  }
};

}  // namespace lockstep_test
