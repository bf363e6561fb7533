// A replica's part of a batch, in the program's own loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A replica's part of a global batch, perhaps without a sample. Refers to arrays: what a dataset
/// gives, what another model has computed, or what the program has written to ReplicaModel::room.
template <class T = float>
struct ReplicaBatch {
  TensorView<const T> x = {};  ///< [samples x elements of a sample]
  /// [samples x target values]; as many as the loss of the step wants: for a function of the
  /// program's own any number, none too. (compile's metrics count where the number is theirs.)
  TensorView<const T> targets = {};
  /// For each sample its number, by which layers draw random numbers; different on all replicas.
  /// Empty: rank, rank + R, rank + 2 R, ... with R ranks.
  std::span<const std::int64_t> sample_indices = {};
  std::size_t weight_size =
      0;  ///< how many of the target values, the last ones, are the sample's weights
};

}  // namespace lockstep::inline LOCKSTEP_ABI
