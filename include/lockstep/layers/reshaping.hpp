// The same values in another shape or order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/sequences.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/input_checks.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

template <class S, class T, class U>
kernels::SequenceLayout sequence_layout(const TensorView<T>& rows, const TensorView<U>& samples) {
  return {.samples = samples.samples(),
          .positions = S::positions,
          .features = S::Token::size,
          .row_stride = rows.stride(),
          .sample_stride = samples.stride()};
}

/// `S` is the Sequence that is by rows.
template <class S, class T>
void copy_to_samples(TensorView<const T> rows, TensorView<T> samples) {
  kernels::rows_to_samples<T>(sequence_layout<S>(rows, samples), rows.data(), samples.data());
}
template <class S, class T>
void copy_to_rows(TensorView<const T> samples, TensorView<T> rows) {
  kernels::samples_to_rows<T>(sequence_layout<S>(rows, samples), samples.data(), rows.data());
}

/// A layer that sees its input as another Shape: for nothing, but if that is a Sequence.
struct ReshapingLayer {
  static constexpr bool aliases_input = true;
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <class In, class T, class Pass>
  static void forward(const Pass& pass) {
    copy_to_samples<In, T>(pass.x, pass.y);
  }
  template <class In, class T, class Pass>
  static void backward(const Pass& pass) {
    copy_to_rows<In, T>(pass.dy, pass.dx);
  }
};

}  // namespace detail

/// Sees each sample as Shape<size>, in row-major order. Costs nothing; a Sequence is copied.
/// Use: `Flatten`: Shape<7, 7, 8> -> Shape<392>.
struct Flatten : detail::ReshapingLayer {
  static constexpr std::string_view name = "flatten";
  template <class In>
  using Output = Shape<In::size>;
};

/// Sees each sample as another shape of the same size, in row-major order: `Reshape<28, 28, 1>`.
/// Costs nothing; a Sequence is copied.
/// Use: `Reshape<28, 28, 1>`: Shape<28, 28> -> Shape<28, 28, 1>.
template <std::size_t... Extents>
struct Reshape : detail::ReshapingLayer {
  static constexpr std::string_view name = "reshape";

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(InputOfSize<Position, In, Shape<Extents...>>,
                  "lockstep: Reshape must keep the number of elements: give it extents whose "
                  "product is that of its input's");
    return true;
  }

  template <class In>
  using Output = Shape<Extents...>;
};

namespace detail {

template <class S>
struct SequenceOfShape {
  using Type = S;
};
template <std::size_t Positions>
struct SequenceOfShape<Shape<Positions>> {
  using Type = Sequence<Positions, 1>;
};
template <std::size_t Positions, std::size_t... Extents>
struct SequenceOfShape<Shape<Positions, Extents...>> {
  using Type = Sequence<Positions, Extents...>;
};
}  // namespace detail

/// Makes a sequence of each sample, for the layers that want one (LSTM, Conv1D, attention): of
/// Shape<T, D> a Sequence<T, D>, of Shape<T> a Sequence<T, 1>. It copies. Keras has no such layer,
/// since there a sequence is an array like any other.
///
/// @code
/// using Net = Sequential<Input<28, 28>, ToSequence, LSTM<64>, Dense<10>>;
/// @endcode
/// Use: `ToSequence`: Shape<28, 28> -> Sequence<28, 28>. Keras: none.
struct ToSequence {
  static constexpr std::string_view name = "to_sequence";
  static constexpr bool takes_sequences = true;
  static constexpr bool keeps_padding = true;

  template <class In>
  using Output = typename detail::SequenceOfShape<In>::Type;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(!is_sequence<In>,
                  "lockstep: the input of ToSequence is a Sequence already: leave it out");
    return true;
  }

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    detail::copy_to_rows<Output<In>, T>(pass.x, pass.y);
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    detail::copy_to_samples<Output<In>, T>(pass.dy, pass.dx);
  }
};

namespace detail {

/// Dims has each number from 1 to its count once.
template <std::size_t... Dims>
consteval bool is_permutation() {
  for (std::size_t wanted = 1; wanted <= sizeof...(Dims); ++wanted)
    if (((Dims == wanted ? 1 : 0) + ... + 0) != 1) return false;
  return true;
}

template <std::size_t Position, class In, std::size_t Rank>
inline constexpr bool has_rank = In::rank == Rank;

template <class In, std::size_t... Dims>
constexpr auto permuted() {
  if constexpr (In::rank == sizeof...(Dims))
    return Shape<In::extents[Dims - 1]...>{};
  else
    return In{};  // (the message of check() says enough)
}

}  // namespace detail

/// So many dimensions.
template <std::size_t Position, class In, std::size_t Rank>
concept InputOfRank = detail::has_rank<Position, In, Rank>;

/// Dimension i of the output is dimension Dims[i] of the input; the first dimension of a sample is
/// 1, as in Keras: `Permute<2, 1>` transposes.
/// Use: `Permute<2, 1>`: Shape<4, 6> -> Shape<6, 4>.
template <std::size_t... Dims>
struct Permute {
  static_assert(detail::is_permutation<Dims...>(),
                "lockstep: Permute needs each dimension of a sample once, the first one is 1: "
                "ls::Permute<2, 1>");

  static constexpr std::string_view name = "permute";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(InputOfRank<Position, In, sizeof...(Dims)>,
                  "lockstep: Permute needs as many dimensions as its input has");
    return true;
  }

  template <class In>
  using Output = decltype(detail::permuted<In, Dims...>());

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    for_each_feature<In>([&](std::size_t from, std::size_t to) {
      std::copy_n(pass.x.data() + from * pass.x.stride(), pass.x.stride(),
                  pass.y.data() + to * pass.x.stride());
    });
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    for_each_feature<In>([&](std::size_t from, std::size_t to) {
      std::copy_n(pass.dy.data() + to * pass.dy.stride(), pass.dy.stride(),
                  pass.dx.data() + from * pass.dy.stride());
    });
  }

 private:
  /// Calls f(number of the feature in the input, in the output).
  template <class In, class F>
  static void for_each_feature(const F& f) {
    constexpr std::size_t rank = sizeof...(Dims);
    constexpr std::array<std::size_t, rank> order{(Dims - 1)...};
    std::array<std::size_t, rank> steps{};  // in the input, from place to place along a dimension
    for (std::size_t d = rank, step = 1; d-- > 0; step *= In::extents[d]) steps[d] = step;
    std::array<std::size_t, rank> at{};  // of the output
    for (std::size_t to = 0; to < In::size; ++to) {
      std::size_t from = 0;
      for (std::size_t d = 0; d < rank; ++d) from += at[d] * steps[order[d]];
      f(from, to);
      for (std::size_t d = rank; d-- > 0;) {
        if (++at[d] < In::extents[order[d]]) break;
        at[d] = 0;
      }
    }
  }
};

/// A Sequence<Count, D> whose tokens are all equal to the sample, a Shape<D>.
/// Use: `RepeatVector<3>`: Shape<10> -> Sequence<3, 10>.
template <std::size_t Count>
struct RepeatVector {
  static_assert(Count > 0, "lockstep: RepeatVector needs at least one token");

  static constexpr std::string_view name = "repeat_vector";
  static constexpr bool takes_sequences = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(FlatInput<Position, In> && !SequenceInput<Position, In>,
                  "lockstep: RepeatVector needs a flat input, and its input has more dimensions: "
                  "put ls::Flatten before it");
    return true;
  }

  template <class In>
  using Output = Sequence<Count, In::size>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    for (std::size_t f = 0; f < In::size; ++f) {
      const T* const from = pass.x.feature(f);
      T* const to = pass.y.feature(f);
      for (std::size_t sample = 0; sample < pass.x.samples(); ++sample)
        std::fill_n(to + sample * Count, Count, from[sample]);
    }
  }

  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    for (std::size_t f = 0; f < In::size; ++f) {
      const T* const from = pass.dy.feature(f);
      T* const to = pass.dx.feature(f);
      for (std::size_t sample = 0; sample < pass.dx.samples(); ++sample) {
        T sum = from[sample * Count];
        for (std::size_t t = 1; t < Count; ++t) sum += from[sample * Count + t];
        to[sample] = sum;
      }
    }
  }
};

namespace detail {

template <std::size_t Position, class In, std::size_t Begin, std::size_t Count>
concept HoldsSlice = (Begin + Count <= In::size);
}

/// The features Begin to Begin + Count - 1 of a flat sample, or of each token. With Parallel, one
/// sample holds several inputs:
/// @code
/// // Three numbers and a category, one after the other in each sample.
/// using Net = Sequential<
///     Input<4>,
///     Parallel<Concatenate, Slice<0, 3>, Sequential<Slice<3, 1>, Embedding<10, 8>, Flatten>>,
///     Dense<1>>;
/// @endcode
/// Use: `Slice<2, 3>`: Shape<10> -> Shape<3>. Keras: none (a functional model has several inputs).
template <std::size_t Begin, std::size_t Count>
struct Slice {
  static_assert(Count > 0, "lockstep: Slice<Begin, Count> needs a count of at least 1");
  static constexpr std::string_view name = "slice";
  static constexpr bool keeps_padding = true;

  template <std::size_t Position, class In>
  static consteval bool check() {
    static_assert(FlatInput<Position, In>,
                  "lockstep: Slice needs a flat input: put ls::Flatten before it");
    static_assert(detail::HoldsSlice<Position, In, Begin, Count>,
                  "lockstep: Slice<Begin, Count> reaches beyond the end of its input");
    return true;
  }

  template <class In>
  using Output = Shape<Count>;

  template <class In, class T>
  static void forward(const ForwardPass<T>& pass) {
    std::copy_n(pass.x.feature(Begin), Count * pass.x.stride(), pass.y.data());
  }
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    std::fill_n(pass.dx.data(), In::size * pass.dx.stride(), T(0));
    std::copy_n(pass.dy.data(), Count * pass.dy.stride(), pass.dx.feature(Begin));
  }
};

}}  // namespace lockstep
