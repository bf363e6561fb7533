// The data that steps are measured on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "lockstep/data/tensor_slices.hpp"

namespace benchmarks {

namespace ls = lockstep;

/// One batch of Subject's (models.hpp) on each of `workers`, forever.
template <class Subject>
auto fixed_batch(int workers = 1) {
  using In = typename Subject::Net::InputShape;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> pixel(0, 1);
  std::vector<float> x(Subject::batch * In::size);
  std::generate(x.begin(), x.end(), [&] { return pixel(random); });
  std::vector<std::uint8_t> y(Subject::batch);
  std::generate(y.begin(), y.end(), [&] { return static_cast<std::uint8_t>(random() % 10); });
  std::vector<std::size_t> shape{Subject::batch};
  shape.insert(shape.end(), In::extents.begin(), In::extents.end());
  return ls::from_tensor_slices(ls::Tensor<float>(std::move(x), shape),
                                ls::Tensor<std::uint8_t>(std::move(y)))
      .repeat()
      .batch(static_cast<std::int64_t>(Subject::batch) * workers);
}

}  // namespace benchmarks
