// How Parallel makes one output of those of its branches.
#pragma once

#include <algorithm>
#include <cmath>
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

/// Two of them. (A Parallel asks for the rule of its first branch with each one, and of all.)
template <class... Outs>
struct TwoOfOneShape {
  static_assert(sizeof...(Outs) == 2, "lockstep: Subtract and Dot merge two branches");
  static constexpr bool holds = false;
};
template <class A, class B>
struct TwoOfOneShape<A, B> : SameShape<A, B> {};

/// Two flat arrays of one size, which become one number.
template <class... Outs>
struct FlatPair : TwoOfOneShape<Outs...> {};
template <class A, class B>
struct FlatPair<A, B> {
  static constexpr bool holds = std::is_same_v<A, B> && !is_sequence<A> && A::rank == 1;
  using Type = Shape<1>;
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

/// The first one minus the second one.
struct Subtract {
  static constexpr std::string_view name = "subtract";
  template <class... Outs>
  using Rule = detail::TwoOfOneShape<Outs...>;

  template <class T>
  static void forward(detail::BranchOutputs<T> outputs, std::size_t, TensorView<T> y) {
    kernels::sweep(
        detail::elements_of(y),
        [](auto& to, const auto& a, const auto& b) LOCKSTEP_KERNEL_LAMBDA { to = a - b; }, y.data(),
        outputs[0].data(), outputs[1].data());
  }
  template <class T>
  static void backward(detail::BranchOutputs<T>, std::size_t, TensorView<const T> dy,
                       std::size_t branch, TensorView<T> gradient) {
    detail::copy_elements(dy, gradient);
    if (branch == 1) detail::scale_by(gradient, T(-1));
  }
};

namespace detail {

/// The largest or the smallest of the branches' elements; the first one that is it has the
/// gradient, as in TensorFlow.
template <bool Largest>
struct Extremum {
  template <class... Outs>
  using Rule = SameShape<Outs...>;

  template <class T>
  static void forward(BranchOutputs<T> outputs, std::size_t, TensorView<T> y) {
    copy_elements(outputs[0], y);
    for (const auto& output : outputs.subspan(1))
      kernels::sweep(
          elements_of(y),
          [](auto& to, const auto& x)
              LOCKSTEP_KERNEL_LAMBDA { to = select(Largest ? x > to : x < to, x, to); },
          y.data(), output.data());
  }
  template <class T>
  static void backward(BranchOutputs<T> outputs, std::size_t, TensorView<const T> dy,
                       std::size_t branch, TensorView<T> gradient) {
    copy_elements(dy, gradient);
    const auto keep = [&](std::size_t other, auto is_beaten) {
      kernels::sweep(
          elements_of(gradient),
          [is_beaten](auto& to, const auto& x, const auto& y) LOCKSTEP_KERNEL_LAMBDA {
            using P = std::remove_cvref_t<decltype(to)>;
            to = select(is_beaten(x, y), P(T(0)), to);
          },
          gradient.data(), outputs[branch].data(), outputs[other].data());
    };
    for (std::size_t other = 0; other < branch; ++other)
      keep(other, [](const auto& x, const auto& y)
                      LOCKSTEP_KERNEL_LAMBDA { return Largest ? x <= y : x >= y; });
    for (std::size_t other = branch + 1; other < outputs.size(); ++other)
      keep(other, [](const auto& x, const auto& y)
                      LOCKSTEP_KERNEL_LAMBDA { return Largest ? x < y : x > y; });
  }
};

}  // namespace detail

/// The largest of them, element by element. Of equal ones, the first has the gradient.
struct Maximum : detail::Extremum<true> {
  static constexpr std::string_view name = "maximum";
};
/// The smallest of them, element by element. Of equal ones, the first has the gradient.
struct Minimum : detail::Extremum<false> {
  static constexpr std::string_view name = "minimum";
};

/// Compile-time options of Dot; the default is Keras's.
struct DotOptions {
  bool normalize = false;  ///< each branch has length 1 first: the cosine of the angle between them
};

/// The sum of the products of two flat outputs, Keras's Dot(axes=1): Shape<1>. With `normalize`, a
/// length below 1e-7 counts as 1e-7.
template <DotOptions Options = DotOptions{}>
struct Dot {
  static constexpr std::string_view name = "dot";
  template <class... Outs>
  using Rule = detail::FlatPair<Outs...>;

  template <class T>
  static void forward(detail::BranchOutputs<T> outputs, std::size_t, TensorView<T> y) {
    each_block(outputs, [&](std::size_t row, const Sums<T>& sums) {
      for (std::size_t i = 0; i < lanes; ++i)
        y(row + i, 0) =
            sums.products[i] / (length(sums.squares[0][i]) * length(sums.squares[1][i]));
    });
  }
  template <class T>
  static void backward(detail::BranchOutputs<T> outputs, std::size_t, TensorView<const T> dy,
                       std::size_t branch, TensorView<T> gradient) {
    const TensorView<const T> own = outputs[branch], other = outputs[1 - branch];
    each_block(outputs, [&](std::size_t row, const Sums<T>& sums) {
      T to_other[lanes], to_own[lanes];
      for (std::size_t i = 0; i < lanes; ++i) {
        const T squares = sums.squares[branch][i];
        to_other[i] = dy(row + i, 0) / (length(squares) * length(sums.squares[1 - branch][i]));
        const bool turns = Options.normalize && length(squares) > shortest<T>;
        to_own[i] = turns ? -to_other[i] * sums.products[i] / squares : T(0);
      }
      for (std::size_t f = 0; f < own.features(); ++f)
        for (std::size_t i = 0; i < lanes; ++i)
          gradient(row + i, f) = to_other[i] * other(row + i, f) + to_own[i] * own(row + i, f);
    });
  }

 private:
  static constexpr std::size_t lanes = batch_multiple;
  template <class T>
  static constexpr T shortest = T(1e-7);
  template <class T>
  struct Sums {
    T products[lanes] = {}, squares[2][lanes] = {};
  };

  template <class T>
  static T length(T squares) {
    return Options.normalize ? std::max(std::sqrt(squares), shortest<T>) : T(1);
  }
  /// Calls f(first row, sums) for each multiple of `lanes` rows, padding included.
  template <class Outputs, class F>
  static void each_block(const Outputs& outputs, const F& f) {
    using T = typename std::remove_cvref_t<decltype(outputs[0])>::value_type;
    for (std::size_t row = 0; row < outputs[0].stride(); row += lanes) {
      Sums<T> sums;
      for (std::size_t c = 0; c < outputs[0].features(); ++c) {
        const T *const a = outputs[0].feature(c) + row, *const b = outputs[1].feature(c) + row;
        for (std::size_t i = 0; i < lanes; ++i) {
          sums.products[i] += a[i] * b[i];
          sums.squares[0][i] += a[i] * a[i];
          sums.squares[1][i] += b[i] * b[i];
        }
      }
      f(row, sums);
    }
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
