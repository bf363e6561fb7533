// How Parallel makes one output of those of its branches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/layers/activation_function.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

/// The outputs of the branches, and the part of the gradient that belongs to one of them.
template <class T>
using BranchOutputs = std::span<const TensorView<const T>>;

template <class T>
std::size_t elements_of(const TensorView<T>& view) {
  return view.features() * view.stride();
}

template <class T>
void add_elements(const T* addend, std::size_t n, T* sum) {
  kernels::sweep(
      n, [](auto& to, const auto& value) LOCKSTEP_KERNEL_LAMBDA { to = to + value; }, sum, addend);
}
template <class T>
void multiply_by(TensorView<T> y, TensorView<const T> x) {
  kernels::sweep(
      elements_of(y),
      [](auto& product, const auto& value) LOCKSTEP_KERNEL_LAMBDA { product = product * value; },
      y.data(), x.data());
}
template <class T>
void copy_elements(TensorView<const T> from, TensorView<T> to) {
  std::copy_n(from.data(), elements_of(from), to.data());
}
template <class T>
void scale_by(TensorView<T> y, T factor) {
  kernels::sweep(
      elements_of(y), [factor](auto& value) LOCKSTEP_KERNEL_LAMBDA { value = factor * value; },
      y.data());
}

/// Branches of one shape.
template <class First, class... Rest>
struct SameShape {
  static constexpr bool holds = (std::is_same_v<First, Rest> && ...);
  using Type = First;
};

/// Shapes that differ in their last extent alone, and the shape with the sum of these.
template <class... Outs>
struct Joined {
  static constexpr bool holds = false;
};
template <std::size_t... Extents>
struct Joined<Shape<Extents...>> {
  static constexpr bool holds = true;
  using Type = Shape<Extents...>;
};
template <class A, class B>
consteval bool joins() {
  if constexpr (A::rank != B::rank)
    return false;
  else
    return std::equal(A::extents.begin(), A::extents.end() - 1, B::extents.begin());
}
template <class A, class B, class = std::make_index_sequence<A::rank>>
struct JoinedPair;
template <class A, class B, std::size_t... I>
struct JoinedPair<A, B, std::index_sequence<I...>> {
  using Type = Shape<(A::extents[I] + (I + 1 == A::rank ? B::extents[I] : 0))...>;
};
template <class A, class B, class... Rest>
  requires(!is_sequence<A> && !is_sequence<B> && joins<A, B>())
struct Joined<A, B, Rest...> : Joined<typename JoinedPair<A, B>::Type, Rest...> {};
template <std::size_t Positions, std::size_t... Extents, class... Rest>
  requires(std::is_same_v<SequenceOf<Positions, TokenOf<Rest>>, Rest> && ...) &&
          (Joined<Shape<Extents...>, TokenOf<Rest>...>::holds)
struct Joined<Sequence<Positions, Extents...>, Rest...> {
  static constexpr bool holds = true;
  using Type = SequenceOf<Positions, typename Joined<Shape<Extents...>, TokenOf<Rest>...>::Type>;
};

}  // namespace detail

// A merge M, for branches with outputs Outs...:
//  1. `M::name`, and `M::template Rule<Outs...>` with `holds`, whether they can be merged, and
//     `Type`, the shape of the result.
//  2. `M::forward<T>(outputs, blocks, y)` writes y. `blocks`: the leading extents' product; a block
//     of y is the next block of each branch, one after the other.
//  3. `M::backward<T>(outputs, blocks, dy, branch, gradient)` writes the gradient of one branch. A
//     merge without it hands dy on to each branch as it is.
//  4. Optional: `M::template array_calls<T>`, the ArrayCalls of its container.

/// The sum of the branches' outputs, which are of one shape.
struct Add {
  static constexpr std::string_view name = "add";
  template <class... Outs>
  using Rule = detail::SameShape<Outs...>;

  template <class T>
  static void forward(detail::BranchOutputs<T> outputs, std::size_t, TensorView<T> y) {
    if (outputs.size() < 2) return detail::copy_elements(outputs[0], y);
    kernels::sweep(
        detail::elements_of(y),
        [](auto& sum, const auto& a, const auto& b) LOCKSTEP_KERNEL_LAMBDA { sum = a + b; },
        y.data(), outputs[0].data(), outputs[1].data());
    for (const auto& output : outputs.subspan(2))
      detail::add_elements(output.data(), detail::elements_of(y), y.data());
  }
};

namespace detail {

/// Add, with Function (a maximum, as ReLU is) applied to the sum.
template <class Function>
struct ActivatedAdd : Add {
  template <class T>
  static void forward(BranchOutputs<T> outputs, std::size_t blocks, TensorView<T> y) {
    Add::forward(outputs, blocks, y);
    activate<Function, T>(elements_of(y), y.data(), y.data(), nullptr);
  }
};

/// For a container that does not merge the outputs of its branches.
struct NoMerge {
  template <class... Outs>
  using Rule = SameShape<Outs...>;
};

/// The activation that the sum goes through, where Merge is a sum of at most one addend for each
/// branch.
template <class Merge>
struct SumActivation {
  static constexpr bool is_sum = false;
  using Type = Linear;
};
template <>
struct SumActivation<Add> {
  static constexpr bool is_sum = true;
  using Type = Linear;
};
template <class Function>
struct SumActivation<ActivatedAdd<Function>> {
  static constexpr bool is_sum = true;
  using Type = Function;
};

}  // namespace detail

/// Their mean.
struct Average {
  static constexpr std::string_view name = "average";
  template <class... Outs>
  using Rule = detail::SameShape<Outs...>;

  template <class T>
  static void forward(detail::BranchOutputs<T> outputs, std::size_t blocks, TensorView<T> y) {
    Add::forward(outputs, blocks, y);
    detail::scale_by(y, T(1) / static_cast<T>(outputs.size()));
  }
  template <class T>
  static void backward(detail::BranchOutputs<T> outputs, std::size_t, TensorView<const T> dy,
                       std::size_t, TensorView<T> gradient) {
    detail::copy_elements(dy, gradient);
    detail::scale_by(gradient, T(1) / static_cast<T>(outputs.size()));
  }
};

/// Their product, element by element.
struct Multiply {
  static constexpr std::string_view name = "multiply";
  template <class... Outs>
  using Rule = detail::SameShape<Outs...>;

  template <class T>
  static void forward(detail::BranchOutputs<T> outputs, std::size_t, TensorView<T> y) {
    detail::copy_elements(outputs[0], y);
    for (const auto& output : outputs.subspan(1)) detail::multiply_by(y, output);
  }
  template <class T>
  static void backward(detail::BranchOutputs<T> outputs, std::size_t, TensorView<const T> dy,
                       std::size_t branch, TensorView<T> gradient) {
    detail::copy_elements(dy, gradient);
    for (std::size_t other = 0; other < outputs.size(); ++other)
      if (other != branch) detail::multiply_by(gradient, outputs[other]);
  }
};

/// One after the other along the last axis.
struct Concatenate {
  static constexpr std::string_view name = "concatenate";
  template <class... Outs>
  using Rule = detail::Joined<Outs...>;

  template <class T>
  static void forward(detail::BranchOutputs<T> outputs, std::size_t blocks, TensorView<T> y) {
    std::size_t first = 0;
    for (const auto& output : outputs) {
      const std::size_t features = output.features() / blocks;
      for (std::size_t block = 0; block < blocks; ++block)
        std::copy_n(output.feature(block * features), features * y.stride(),
                    y.feature(block * (y.features() / blocks) + first));
      first += features;
    }
  }
  template <class T>
  static void backward(detail::BranchOutputs<T> outputs, std::size_t blocks, TensorView<const T> dy,
                       std::size_t branch, TensorView<T> gradient) {
    std::size_t first = 0;
    for (const auto& output : outputs.first(branch)) first += output.features() / blocks;
    const std::size_t features = gradient.features() / blocks;
    for (std::size_t block = 0; block < blocks; ++block)
      std::copy_n(dy.feature(block * (dy.features() / blocks) + first), features * dy.stride(),
                  gradient.feature(block * features));
  }
};

}}  // namespace lockstep
