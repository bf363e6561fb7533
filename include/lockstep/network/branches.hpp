// What a container of branches consists of, and where their arrays are.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_place.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/run_layers.hpp"

// The container's scratch holds: the outputs of all branches that compute something, but for a last
// one that writes the sum of all; the branches' scratch; the mask of the merged output. Its
// temporary memory: the gradient of one output; a gradient of the input; that of the branch that
// runs.

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline constexpr std::size_t max_branches = 16;

/// A branch. One that computes nothing hands its input on, perhaps as another shape.
struct Branch {
  LayerPlace place;
  bool computes = true;
  bool writes_sum = false;  ///< of the branch before it and its own, to the container's output
};

/// What one layer runs, for a branch.
template <class T>
struct BranchCalls {
  ForwardCall<T> forward;
  BackwardCall<T> backward;          ///< with the gradient of the input
  BackwardCall<T> backward_weights;  ///< without; null: the branch has nothing to train
};

template <class T>
struct MergeCalls {
  std::size_t blocks = 1;
  void (*forward)(BranchOutputs<T>, std::size_t blocks, TensorView<T> y) = nullptr;
  /// Null: the gradient of each branch's output is that of the merged one.
  void (*backward)(BranchOutputs<T>, std::size_t blocks, TensorView<const T> dy, std::size_t branch,
                   TensorView<T> gradient) = nullptr;
  T minimum = ForwardPass<T>::no_minimum;  ///< forward leaves nothing below it in the sum
};

/// Whether the branch's output has an array of its own.
[[nodiscard]] constexpr bool keeps_output(const Branch& branch) {
  return branch.computes && !branch.writes_sum;
}

[[nodiscard]] constexpr std::size_t branch_outputs(std::span<const Branch> branches,
                                                   std::size_t samples) {
  std::size_t elements = 0;
  for (const Branch& branch : branches)
    elements += keeps_output(branch) ? branch.place.output.elements(samples) : 0;
  return elements;
}
[[nodiscard]] constexpr std::size_t largest_branch_output(std::span<const Branch> branches,
                                                          std::size_t samples) {
  std::size_t largest = 0;
  for (const Branch& branch : branches)
    largest = std::max(largest, branch.place.output.elements(samples));
  return largest;
}
[[nodiscard]] constexpr std::size_t branches_scratch(std::span<const Branch> branches,
                                                     std::size_t samples) {
  std::size_t elements = branch_outputs(branches, samples);
  for (const Branch& branch : branches) elements += branch.place.scratch_size(samples);
  return elements + branches.front().place.output.stride(samples);
}
/// Where the branches' own temporary memory begins, in elements.
[[nodiscard]] constexpr std::size_t first_branch_temporary(std::span<const Branch> branches,
                                                           std::size_t samples) {
  return largest_branch_output(branches, samples) + branches.front().place.input.elements(samples);
}
[[nodiscard]] constexpr std::size_t branches_temporary(std::span<const Branch> branches,
                                                       std::size_t samples) {
  std::size_t largest = 0;
  for (const Branch& branch : branches)
    largest = std::max(largest, branch.place.temporary_size(samples));
  return first_branch_temporary(branches, samples) + largest;
}

/// Where the arrays of the branches are in a pass.
template <class T>
struct BranchArrays {
  std::array<TensorView<const T>, max_branches> outputs;
  std::array<std::span<T>, max_branches> scratch;
  std::span<T> mask;  ///< a number for each row
  std::size_t count = 0;

  /// y: the container's output.
  BranchArrays(std::span<const Branch> branches, TensorView<const T> x, TensorView<const T> y,
               std::span<T> all)
      : count(branches.size()) {
    const std::size_t samples = samples_of(x, branches.front().place.input);
    T* output = all.data();
    std::size_t own = branch_outputs(branches, samples);
    for (std::size_t b = 0; b < count; ++b) {
      const LayerPlace& place = branches[b].place;
      const T* const data = branches[b].writes_sum ? y.data()
                            : branches[b].computes ? static_cast<const T*>(output)
                                                   : x.data();
      outputs[b] = place.output.view(data, samples);
      if (keeps_output(branches[b])) output += place.output.elements(samples);
      scratch[b] = all.subspan(own, place.scratch_size(samples));
      own += scratch[b].size();
    }
    mask = all.subspan(own, branches.front().place.output.stride(samples));
  }
  [[nodiscard]] BranchOutputs<T> all_outputs() const { return std::span(outputs).first(count); }
  /// (It is const to others.)
  [[nodiscard]] TensorView<T> output(std::size_t b) const {
    return {const_cast<T*>(outputs[b].data()), outputs[b].samples(), outputs[b].features(),
            outputs[b].stride()};
  }
};

/// What the branch that runs has of the container's temporary memory.
template <class T, class Pass>
std::span<T> branch_temporary(std::span<const Branch> branches, const Pass& pass) {
  return pass.temporary.subspan(
      first_branch_temporary(branches, samples_of(pass.x, branches.front().place.input)));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
