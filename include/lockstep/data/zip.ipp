#pragma once

#include <algorithm>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/zip.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

LOCKSTEP_INLINE Zip::Zip(AnyStage first, AnyStage second) {
  branches_.push_back(std::move(first));
  branches_.push_back(std::move(second));
}

LOCKSTEP_INLINE void Zip::begin(Pass pass) {
  if (branches_[0].weight_size() > 0 && branches_[1].weight_size() > 0)
    throw DataError(
        "zip: the samples of both datasets have weights, and a pair has only one set of them: map "
        "those of one away with {.weight_size = 0}");
  for (std::size_t b = 0; b < branches_.size(); ++b)
    branches_[b].begin(detail::JoinedStages::branch_pass(pass, b));
}

LOCKSTEP_INLINE bool Zip::next(Element& element) {
  Element first, second;
  if (!branches_[0].next(first) || !branches_[1].next(second)) return false;
  element.index = first.index;
  element.pass = detail::rekeyed(first.pass, "zip");
  element.parts.clear();
  element.parts.push_back(std::move(first));
  element.parts.push_back(std::move(second));
  return true;
}

LOCKSTEP_INLINE std::int64_t Zip::advance(std::int64_t n) {
  const std::int64_t first = branches_[0].advance(n);
  return std::min(first, branches_[1].advance(first));
}

LOCKSTEP_INLINE std::int64_t Zip::cardinality() const {
  const std::int64_t a = branches_[0].cardinality(), b = branches_[1].cardinality();
  if (a == unknown_cardinality || b == unknown_cardinality) return unknown_cardinality;
  if (a == infinite_cardinality) return b;
  return b == infinite_cardinality ? a : std::min(a, b);
}

LOCKSTEP_INLINE void Zip::shard_files(int num_shards, int index) {
  for (AnyStage& branch : branches_) branch.shard_files(num_shards, index);
}

LOCKSTEP_INLINE std::vector<std::size_t> Zip::sample_shape() const {
  if (branches_[0].target_size() == branches_[0].weight_size()) return branches_[0].sample_shape();
  return {sample_size()};
}

template <class T>
void Zip::read_both(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
  const std::size_t weights = branches_[0].weight_size();  // they come last
  if (!x.empty()) {
    detail::parts_numbered(samples, 0, selected_);
    const std::size_t size = branches_[0].sample_size(), rest = x.features() - size;
    const TensorView<T> to = weights > 0 ? target_.view<T>(selected_.size(), rest + weights)
                                         : detail::features_of(x, size, rest);
    branches_[0].read(selected_, detail::features_of(x, 0, size), to);
    if (weights > 0) detail::copy_features(detail::features_of(to, 0, rest), x, size);
    if (weights > 0 && !y.empty())
      detail::copy_features(detail::features_of(to, rest, weights), y, y.features() - weights);
  }
  if (!y.empty()) {
    detail::parts_numbered(samples, 1, selected_);
    const std::size_t size = branches_[1].sample_size();
    branches_[1].read(selected_, detail::features_of(y, 0, size),
                      detail::features_of(y, size, y.features() - weights - size));
  }
}

LOCKSTEP_INLINE void Zip::read(ElementSpan samples, TensorView<float> x, TensorView<float> y) {
  read_both(samples, x, y);
}
LOCKSTEP_INLINE void Zip::read(ElementSpan samples, TensorView<double> x, TensorView<double> y) {
  read_both(samples, x, y);
}

}  // namespace lockstep::inline LOCKSTEP_ABI
