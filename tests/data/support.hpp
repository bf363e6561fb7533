// Small datasets, and what comes out of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/concepts.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "support/messages.hpp"
#include "support/tensor.hpp"

namespace lockstep_test {

using Indices = std::vector<std::int64_t>;
using Batches = std::vector<Indices>;

/// Sample i is the number i, its target 10 i.
inline auto numbers(int n) {
  std::vector<int> x(static_cast<std::size_t>(n));
  std::iota(x.begin(), x.end(), 0);
  std::vector<int> y = x;
  for (int& value : y) value *= 10;
  return lockstep::from_tensor_slices(x, y);
}

/// The same, with the weight 100 i.
inline auto weighted_numbers(int n) {
  std::vector<int> x(static_cast<std::size_t>(n)), y, w;
  std::iota(x.begin(), x.end(), 0);
  for (const int value : x) y.push_back(10 * value);
  for (const int value : x) w.push_back(100 * value);
  return lockstep::from_tensor_slices(x, y, w);
}

inline Indices to_indices(std::span<const std::int64_t> indices) {
  return {indices.begin(), indices.end()};
}

/// The batches that are left.
template <class D>
Batches rest(D& dataset, std::size_t most = 1000) {
  Batches batches;
  while (batches.size() < most && dataset.next() > 0)
    batches.push_back(to_indices(dataset.sample_indices()));
  return batches;
}

template <class D>
Batches batches_of(D dataset, lockstep::Iteration iteration = {}, std::size_t most = 1000) {
  dataset.begin(iteration);
  return rest(dataset, most);
}

inline Indices flat(const Batches& batches) {
  Indices all;
  for (const Indices& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

/// The samples of a pipeline without batches, one after the other.
template <class P>
Indices samples_of(const P& pipeline, lockstep::Iteration iteration = {}, std::size_t most = 1000) {
  return flat(batches_of(pipeline.batch(1), iteration, most));
}

inline Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

inline Indices range(std::int64_t begin, std::int64_t end) {
  Indices indices(static_cast<std::size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return indices;
}

inline Indices slice(const Indices& indices, std::size_t begin, std::size_t end) {
  return Indices(indices.begin() + static_cast<std::ptrdiff_t>(begin),
                 indices.begin() + static_cast<std::ptrdiff_t>(end));
}

/// All positions of the current batch.
template <class D>
std::vector<std::size_t> all_positions(const D& dataset) {
  std::vector<std::size_t> positions(dataset.sample_indices().size());
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  return positions;
}

/// The current batch, read as a whole.
template <class T>
struct Read {
  template <class D>
  explicit Read(D& dataset)
      : x(dataset.sample_indices().size(), dataset.sample_size()),
        y(dataset.sample_indices().size(), dataset.target_size()) {
    dataset.read(std::span<const std::size_t>(all_positions(dataset)), x.view(),
                 dataset.target_size() == 0 ? lockstep::TensorView<T>{} : y.view());
  }
  Tensor<T> x;
  Tensor<T> y;
};

}  // namespace lockstep_test
