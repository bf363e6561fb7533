// What a container of branches consists of, and where their arrays are.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/network/layer_place.hpp"
#include "lockstep/network/merge.hpp"
#include "lockstep/network/run_layers.hpp"

// The container's scratch holds the outputs of all branches that compute something, except a last
// one that writes the sum; the branches' scratch; the mask of the merged output. Its temporary
// memory holds the gradient of one output; a second gradient of the input, where one is needed; the
// outputs that are kept in 16 bits and that backward reads (in forward, all that are kept so, in
// the place of these); the temporary memory of the branch that runs.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline constexpr std::size_t max_branches = 16;

/// A branch. One that computes nothing hands its input on, perhaps as another shape.
struct Branch {
  LayerPlace place;
  bool computes = true;
  bool writes_sum = false;   ///< of the branch before it and its own, to the container's output
  bool reads_output = true;  ///< in backward: it, or the merge
};

/// What one layer runs, for a branch.
template <class T>
struct BranchCalls {
  ForwardCall<T> forward;
  BackwardCall<T> backward;          ///< with the gradient of the input
  BackwardCall<T> backward_weights;  ///< without; null: the branch has nothing to train
};

/// How a container copies and adds arrays. (A device does it later, in the order of its kernels.)
template <class T>
struct ArrayCalls {
  void (*copy)(const T* from, std::size_t n, T* to) = [](const T* from, std::size_t n, T* to) {
    std::copy_n(from, n, to);
  };
  void (*add)(const T* addend, std::size_t n, T* sum) = add_elements<T>;
};

template <class T>
struct MergeCalls {
  std::size_t blocks = 1;
  void (*forward)(BranchOutputs<T>, std::size_t blocks, TensorView<T> y) = nullptr;
  /// Null: each branch's output has the gradient of the merged one.
  void (*backward)(BranchOutputs<T>, std::size_t blocks, TensorView<const T> dy, std::size_t branch,
                   TensorView<T> gradient) = nullptr;
  T minimum = ForwardPass<T>::no_minimum;  ///< forward leaves nothing below it in the sum
  ArrayCalls<T> arrays = {};
};

/// Whether the branch's output has its own array.
[[nodiscard]] constexpr bool keeps_output(const Branch& branch) {
  return branch.computes && !branch.writes_sum;
}

[[nodiscard]] constexpr std::size_t branch_outputs(std::span<const Branch> branches,
                                                   std::size_t samples) {
  std::size_t elements = 0;
  for (const Branch& branch : branches)
    elements += keeps_output(branch) ? branch.place.kept_size(samples) : 0;
  return elements;
}
/// Elements of the packed outputs, when unpacked, or with `read` of those that backward reads.
[[nodiscard]] constexpr std::size_t unpacked_outputs(std::span<const Branch> branches,
                                                     std::size_t samples, bool read) {
  std::size_t elements = 0;
  for (const Branch& branch : branches)
    if (keeps_output(branch) && branch.place.kept != nullptr && (!read || branch.reads_output))
      elements += branch.place.output.elements(samples);
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
/// Whether a branch needs a place for its gradient of the input besides the container's: a later
/// branch has already written there, or the gradient is not wanted. (A branch that computes nothing
/// adds the gradient of its output directly.)
[[nodiscard]] constexpr bool has_more_dx(std::span<const Branch> branches) {
  for (const Branch& branch : branches)
    if (branch.computes && (&branch != &branches.back() || branch.place.throws_gradient))
      return true;
  return false;
}
/// Where unpacked outputs begin in the temporary memory in backward, and where the branches' does.
[[nodiscard]] constexpr std::size_t first_unpacked_output(std::span<const Branch> branches,
                                                          std::size_t samples) {
  return largest_branch_output(branches, samples) +
         (has_more_dx(branches) ? branches.front().place.input.elements(samples) : 0);
}
[[nodiscard]] constexpr std::size_t first_branch_temporary(std::span<const Branch> branches,
                                                           std::size_t samples) {
  return std::max(
      unpacked_outputs(branches, samples, false),
      first_unpacked_output(branches, samples) + unpacked_outputs(branches, samples, true));
}
[[nodiscard]] constexpr std::size_t branches_temporary(std::span<const Branch> branches,
                                                       std::size_t samples) {
  std::size_t largest = 0;
  for (const Branch& branch : branches)
    largest = std::max(largest, branch.place.temporary_size(samples));
  return first_branch_temporary(branches, samples) + largest;
}

/// What the arrays are for: forward writes the outputs, visit restores all of them, and backward
/// those that it reads.
enum class BranchUse : unsigned char { forward, visit, backward };

/// Where the arrays of the branches are in a pass.
template <class T>
struct BranchArrays {
  std::array<TensorView<const T>, max_branches> outputs;
  std::array<T*, max_branches> packed;  ///< where outputs are kept; null: where they are
  std::array<std::span<T>, max_branches> scratch;
  std::span<T> mask;  ///< a number for each row
  std::size_t count = 0;

  /// y: the container's output. Outputs that are packed are put to `temporary`.
  BranchArrays(std::span<const Branch> branches, TensorView<const T> x, TensorView<const T> y,
               std::span<T> all, std::span<T> temporary, BranchUse use)
      : count(branches.size()) {
    const std::size_t samples = samples_of(x, branches.front().place.input);
    T* output = all.data();
    const bool is_backward = use == BranchUse::backward;
    T* room = temporary.data() + (is_backward ? first_unpacked_output(branches, samples) : 0);
    std::size_t own = branch_outputs(branches, samples);
    for (std::size_t b = 0; b < count; ++b) {
      const LayerPlace& place = branches[b].place;
      const T* data = branches[b].writes_sum ? y.data() : x.data();
      packed[b] = nullptr;
      if (keeps_output(branches[b])) {
        data = output;
        if (place.kept != nullptr) {
          packed[b] = output;
          data = room;
          if (!is_backward || branches[b].reads_output) {
            if (use != BranchUse::forward)
              static_cast<void>(place.unpack_output(output, room, samples));
            room += place.output.elements(samples);
          }
        }
        output += place.kept_size(samples);
      }
      outputs[b] = place.output.view(data, samples);
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

// Runs the branches of a container on one input, without knowing their types.

/// Runs a branch; returns the mask of its output. addend, minimum: as in ForwardPass.
template <class T>
const T* run_branch(const Branch& branch, const BranchCalls<T>& calls, const ForwardPass<T>& pass,
                    TensorView<T> y, std::span<T> scratch, std::span<T> temporary,
                    const T* addend = nullptr, T minimum = ForwardPass<T>::no_minimum) {
  const LayerPlace& place = branch.place;
  const T* mask_of_y = place.keeps_mask || !branch.computes ? pass.mask : nullptr;
  if (!branch.computes) return mask_of_y;
  const StepContext context = place.context(pass.context);
  const TraceSpan span(trace_of(place, context), TracePart::forward, context.layer);
  calls.forward.run({.context = context,
                     .weights = pass.weights.subspan(place.first_variable, place.variables),
                     .state = pass.state.subspan(place.first_state_variable, place.state_variables),
                     .x = pass.x,
                     .y = y,
                     .scratch = scratch,
                     .mask = pass.mask,
                     .mask_of_y = &mask_of_y,
                     .temporary = temporary,
                     .addend = addend,
                     .minimum = minimum});
  return mask_of_y;
}

/// As in Keras: a row counts where it does in one branch, hence everywhere if a branch has no mask
/// (null). `rows`: room for a mask that differs from each branch's.
template <class T>
const T* merged_mask(std::span<const T* const> masks, std::span<T> rows) {
  if (std::find(masks.begin(), masks.end(), nullptr) != masks.end()) return nullptr;
  if (std::all_of(masks.begin(), masks.end(), [&](const T* mask) { return mask == masks[0]; }))
    return masks[0];
  std::copy_n(masks[0], rows.size(), rows.data());
  for (const T* const mask : masks.subspan(1))
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = std::max(rows[row], mask[row]);
  return rows.data();
}

template <class T>
void run_branches(std::span<const Branch> branches, std::span<const BranchCalls<T>> calls,
                  const MergeCalls<T>& merge, const ForwardPass<T>& pass) {
  const BranchArrays<T> arrays(branches, pass.x, pass.y, pass.scratch, pass.temporary,
                               BranchUse::forward);
  const std::span<T> temporary = branch_temporary<T>(branches, pass);
  std::array<const T*, max_branches> masks{};
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const bool sums = branches[b].writes_sum;
    masks[b] = run_branch<T>(branches[b], calls[b], pass, arrays.output(b), arrays.scratch[b],
                             temporary, sums ? arrays.outputs[b - 1].data() : nullptr,
                             sums ? merge.minimum : pass.no_minimum);
    if (arrays.packed[b] != nullptr)
      branches[b].place.pack_output(arrays.output(b), arrays.packed[b]);
  }
  if (!branches.back().writes_sum) merge.forward(arrays.all_outputs(), merge.blocks, pass.y);
  pass.set_mask(
      merged_mask<T>(std::span(masks).first(branches.size()), arrays.mask.first(pass.y.samples())));
}

template <class T>
void visit_branches(std::span<const Branch> branches, std::span<const BranchCalls<T>> calls,
                    std::size_t first, const ForwardPass<T>& pass, OutputVisitor<T> visit) {
  const BranchArrays<T> arrays(branches, pass.x, pass.y, pass.scratch, pass.temporary,
                               BranchUse::visit);
  for (std::size_t b = 0; b < branches.size(); ++b) {
    if (!branches[b].computes) continue;
    const std::size_t position = first + branches[b].place.position;
    if (calls[b].forward.each_output == nullptr)
      visit(position, arrays.outputs[b]);
    else
      calls[b].forward.each_output(position,
                                   {.context = pass.context,
                                    .weights = {},
                                    .state = {},
                                    .x = pass.x,
                                    .y = arrays.output(b),
                                    .scratch = arrays.scratch[b],
                                    .temporary = branch_temporary<T>(branches, pass)},
                                   visit);
  }
}

/// What a branch is given in backward, and how.
template <class T>
struct BranchGradients {
  TensorView<T> dy, dx;
  bool keeps_dy = false;  ///< this and the next ones: as in BackwardPass
  bool adds_to_dx = false;
  T* spare = nullptr;
};

/// Runs branch b backward. (call: one of calls[b].)
template <class T>
void run_branch_backward(std::span<const Branch> branches, std::size_t b,
                         const BackwardCall<T>& call, const BackwardPass<T>& pass,
                         const BranchArrays<T>& arrays, const BranchGradients<T>& gradients) {
  const LayerPlace& place = branches[b].place;
  StepContext context = place.context(pass.context);
  if (!call.announces_gradients) context.gradients_ready = context.variables_done = {};
  const BackwardPass<T> branch_pass{
      .context = context,
      .weights = pass.weights.subspan(place.first_variable, place.variables),
      .state = pass.state.subspan(place.first_state_variable, place.state_variables),
      .x = pass.x,
      .y = arrays.outputs[b],
      .dy = gradients.dy,
      .dx = call.dx == GradientPlace::nowhere ? TensorView<T>() : gradients.dx,
      .gradients = pass.gradients.subspan(place.first_variable, place.variables),
      .scratch = arrays.scratch[b],
      .temporary = branch_temporary<T>(branches, pass),
      .keeps_dy = gradients.keeps_dy,
      .spare = gradients.spare,
      .adds_to_dx = gradients.adds_to_dx};
  const TraceSpan span(trace_of(place, context), TracePart::backward, context.layer);
  call.run(branch_pass);
  pass.context.gradients_ready(branch_pass.gradients);
  pass.context.variables_done(branch_pass.gradients);
}

/// Runs the branches backward, last to first; `merge(b, space, may_stay)` returns the gradient of
/// branch b's output, which the branch may overwrite: in `space`, or where it is already; may_stay:
/// no other branch follows, or this one does not overwrite it. Without pass.dx, only the branches
/// that have something to train are run. `arrays`: those of the pass, unpacked.
template <class T, class Merge>
void run_branches_backward_with(std::span<const Branch> branches,
                                std::span<const BranchCalls<T>> calls, const BackwardPass<T>& pass,
                                const BranchArrays<T>& arrays, const Merge& merge,
                                const ArrayCalls<T>& array_calls = {}) {
  const std::size_t samples = samples_of(pass.x, branches.front().place.input);
  T* const space = pass.temporary.data();
  T* const more_dx = space + largest_branch_output(branches, samples);
  const auto call_of = [&](std::size_t b) -> const BackwardCall<T>& {
    return pass.dx.empty() ? calls[b].backward_weights : calls[b].backward;
  };
  const auto runs = [&](std::size_t b) {
    return branches[b].computes ? call_of(b).run != nullptr : !pass.dx.empty();
  };
  std::size_t last = 0;
  while (last < branches.size() && !runs(last)) ++last;
  bool has_dx = false;
  for (std::size_t b = branches.size(); b-- > last;) {
    if (!runs(b)) continue;
    const LayerPlace& place = branches[b].place;
    const BackwardCall<T>& call = call_of(b);
    const bool keeps_dy = call.keeps_dy && b != last, adds = has_dx && call.adds_to_dx;
    const TensorView<T> dy = merge(b, place.output.view(space, samples), b == last || keeps_dy);
    TensorView<T> dx =
        pass.dx.empty() || (has_dx && !adds) ? place.input.view(more_dx, samples) : pass.dx;
    if (!branches[b].computes) {
      if (has_dx)
        dx = place.input.view(dy.data(), samples);
      else
        array_calls.copy(dy.data(), place.input.elements(samples), dx.data());
    } else {
      run_branch_backward<T>(branches, b, call, pass, arrays, {dy, dx, keeps_dy, adds, nullptr});
    }
    if (has_dx && !adds) array_calls.add(dx.data(), elements_of(dx), pass.dx.data());
    has_dx = !pass.dx.empty();
  }
}

/// to = dy where the sum y was above the minimum, else 0; without a minimum, dy.
template <class T>
void sum_gradient(const BackwardPass<T>& pass, T minimum, T* to) {
  const std::size_t n = elements_of(pass.dy);
  if (minimum > ForwardPass<T>::no_minimum)
    kernels::sweep(
        n,
        [minimum](const auto& gradient, const auto& value, auto& result) LOCKSTEP_KERNEL_LAMBDA {
          using P = std::remove_cvref_t<decltype(value)>;
          result = select(value <= P(minimum), P(T(0)), gradient);
        },
        static_cast<const T*>(pass.dy.data()), pass.y.data(), to);
  else if (to != pass.dy.data())
    std::copy_n(pass.dy.data(), n, to);
}

template <class T>
void run_branches_backward(std::span<const Branch> branches, std::span<const BranchCalls<T>> calls,
                           const MergeCalls<T>& merge, const BackwardPass<T>& pass) {
  const BranchArrays<T> arrays(branches, pass.x, pass.y, pass.scratch, pass.temporary,
                               BranchUse::backward);
  if (merge.backward == nullptr && branches.size() == 2 && !branches[0].computes &&
      !pass.dx.empty() && calls[1].backward.adds_to_dy) {
    // x + f(x), where f adds its part to the gradient of the sum.
    sum_gradient(pass, merge.minimum, pass.dx.data());
    const TensorView<T> dy(pass.dx.data(), pass.dy.samples(), pass.dy.features(), pass.dy.stride());
    return run_branch_backward<T>(branches, 1, calls[1].backward, pass, arrays,
                                  {dy, pass.dx, true, true, pass.dy.data()});
  }
  if (merge.backward == nullptr) sum_gradient(pass, merge.minimum, pass.dy.data());
  run_branches_backward_with<T>(
      branches, calls, pass, arrays,
      [&](std::size_t b, TensorView<T> space, bool may_stay) {
        if (merge.backward != nullptr) {
          merge.backward(arrays.all_outputs(), merge.blocks, pass.dy, b, space);
          return space;
        }
        const TensorView<T> dy(pass.dy.data(), space.samples(), space.features(), space.stride());
        // What computes nothing does not write to it.
        if (may_stay || !branches[b].computes) return dy;
        merge.arrays.copy(dy.data(), elements_of(dy), space.data());
        return space;
      },
      merge.arrays);
}

LOCKSTEP_EXTERN(void run_branches<float>(std::span<const Branch>,
                                         std::span<const BranchCalls<float>>,
                                         const MergeCalls<float>&, const ForwardPass<float>&));
LOCKSTEP_EXTERN_DOUBLE(void run_branches<double>(std::span<const Branch>,
                                                 std::span<const BranchCalls<double>>,
                                                 const MergeCalls<double>&,
                                                 const ForwardPass<double>&));
LOCKSTEP_EXTERN(void run_branches_backward<float>(std::span<const Branch>,
                                                  std::span<const BranchCalls<float>>,
                                                  const MergeCalls<float>&,
                                                  const BackwardPass<float>&));
LOCKSTEP_EXTERN_DOUBLE(void run_branches_backward<double>(std::span<const Branch>,
                                                          std::span<const BranchCalls<double>>,
                                                          const MergeCalls<double>&,
                                                          const BackwardPass<double>&));

}}}  // namespace lockstep::detail
