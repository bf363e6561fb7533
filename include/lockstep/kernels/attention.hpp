// Attention: each query's mean of the values, weighted by how well its key fits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/attention_block.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/product_layout.hpp"
#include "lockstep/kernels/random.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/kernels/transpose.hpp"

// q, k, v and o are [head][feature][stride]; the positions of a sequence are contiguous, those of
// the next one follow. For each sequence and head, a block of queries after the other:
//
//   scores^T = k^T q / sqrt(key_size)    keys are rows, so that a query's scores are a column
//   p^T      = softmax down the columns
//   o        = v p^T
//
// (With AttentionScores, the scores are sums of tanh instead.)
//
// which needs no transposition. Backward sums over the queries in two of its products, and so
// transposes q and the gradient of o, both small:
//
//   dp^T = v^T do    ds^T = p^T (dp^T - sums of p dp)
//   dq = k ds^T      dk^T += ds^T q^T      dv^T += p^T do^T
//
// Heads of a group share k and v, and dk and dv are the sums over the group, head after head.
//
// Nothing in it depends on the number of sequences: each has the same bits alone as among others.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

struct AttentionSize {
  std::size_t samples = 0;
  std::size_t heads = 1;
  std::size_t key_size = 1;    ///< features of a head's queries and keys
  std::size_t value_size = 1;  ///< features of a head's values
  std::size_t queries = 1;     ///< positions of a sequence
  std::size_t keys = 1;        ///< those of a sequence of keys and values
  std::size_t query_stride = 0;
  std::size_t key_stride = 0;
  bool causal = false;     ///< query t sees the keys 0 to t
  std::size_t window = 0;  ///< with `causal`: how many of the last ones; 0: all
  std::size_t group = 1;   ///< heads of queries that share one of keys and values; divides `heads`
};

/// 1 for each position that counts and 0 for one that does not; null: all count.
template <class T>
struct AttentionMasks {
  const T* queries = nullptr;
  const T* keys = nullptr;
};

/// Each probability becomes 0 where number `key position` of the stream of (sample, head, query
/// position) is below `threshold`, and is multiplied by `scale` elsewhere.
struct AttentionDropout {
  std::uint64_t threshold = 0;  ///< the rate times 2^32; 0: no dropout
  double scale = 1;
  FunctionRef<RandomKey(std::size_t sample)> random_key;

  [[nodiscard]] RandomKey query_key(const AttentionSize& s, std::size_t sample, std::size_t head,
                                    std::size_t query) const {
    return random_key(sample).fold_in(head * s.queries + query);
  }
};

/// Queries of a block: constant but for very long and very short sequences.
[[nodiscard]] constexpr std::size_t attention_block(std::size_t queries) noexcept {
  return std::min<std::size_t>(queries > 256 ? 64 : 32, padded_columns(queries));
}

/// Whether forward keeps the probabilities for backward. Those of longer sequences are computed
/// again, from two numbers for each query.
[[nodiscard]] constexpr bool attention_keeps_probabilities(const AttentionSize& s) noexcept {
  return s.queries <= 256 && s.keys <= 256;
}

/// Scores that are no products, but sums over the features of weights[f] tanh(scale (q + k)): see
/// AdditiveScores. Backward adds to the gradients.
template <class T>
struct AttentionScores {
  const T* weights = nullptr;  ///< [key_size]; null: products
  T scale = 1;
  T* weight_gradients = nullptr;
  T* scale_gradient = nullptr;
};

namespace detail {

/// What forward leaves for backward, for each sequence and head.
[[nodiscard]] constexpr std::size_t attention_kept_of_head(const AttentionSize& s) noexcept {
  return (attention_keeps_probabilities(s) ? s.keys : 2) * padded_columns(s.queries);
}

/// Scratch of one block of queries, in elements.
struct AttentionWork {
  std::size_t block, scores, packed, result;
  constexpr explicit AttentionWork(const AttentionSize& s) noexcept
      : block(attention_block(s.queries)),
        scores(s.keys * block),
        packed(padded_columns(std::max(s.key_size, s.value_size)) * block),
        result(s.keys * padded_columns(std::max(s.key_size, s.value_size))) {}
  [[nodiscard]] constexpr std::size_t size() const noexcept {
    return 3 * scores + 4 * packed + 2 * result + 3 * block;
  }
};

}  // namespace detail

/// Elements that attention_forward keeps for attention_backward.
[[nodiscard]] constexpr std::size_t attention_kept(const AttentionSize& s) noexcept {
  return s.samples * s.heads * detail::attention_kept_of_head(s);
}

/// Elements of scratch that both need.
[[nodiscard]] constexpr std::size_t attention_work(const AttentionSize& s) noexcept {
  return detail::AttentionWork(s).size();
}

namespace detail {

/// One sequence and head.
template <class T>
struct AttentionHead {
  const AttentionSize& size;
  const AttentionMasks<T>& masks;
  const AttentionDropout& dropout;
  const AttentionScores<T>& scores;
  const T *q, *k;
  T* kept;
  T* work;
  std::size_t sample, head;

  /// A block of its queries.
  struct Block {
    std::size_t first, valid, columns;
    std::size_t begin, keys;  ///< those that any of them sees: the first, and how many
  };

  template <class F>
  void for_each_block(const F& f) const {
    const std::size_t block = attention_block(size.queries);
    for (std::size_t first = 0; first < size.queries; first += block) {
      const std::size_t valid = std::min(block, size.queries - first);
      const std::size_t end = size.causal ? std::min(size.keys, first + valid) : size.keys;
      // (With dropout from 0 on: a key has the random number of its position.)
      const std::size_t begin = size.window != 0 && first >= size.window && dropout.threshold == 0
                                    ? std::min(end, first + 1 - size.window)
                                    : 0;
      f(Block{first, valid, padded_columns(valid), begin, end - begin});
    }
  }

  /// The block's softmax, or with `again` the same bits once more, in backward. `packed` is
  /// scratch.
  void probabilities(const Block& b, T* to, T* packed, bool again) const {
    const AttentionWork parts(size);
    const bool is_product = scores.weights == nullptr;
    const T scale = is_product ? T(1) / std::sqrt(static_cast<T>(size.key_size)) : T(1);
    dispatch(PackColumns<T>{q + b.first, size.key_size, size.query_stride, b.valid, b.columns,
                            scale, packed});
    if (is_product)
      multiply_parts<T>({to, b.keys, b.columns, b.columns}, k + b.begin, packed, size.key_size,
                        {.a_row = 1, .a = size.key_stride, .b = {b.columns}});
    else
      dispatch(additive(b, packed, to));
    const bool keeps_all = attention_keeps_probabilities(size);
    T* const largest = keeps_all ? work + parts.size() - 3 * parts.block : kept + b.first;
    T* const factor = keeps_all ? largest + parts.block : largest + padded_columns(size.queries);
    dispatch(AttentionSoftmax<T>{
        .scores = to,
        .keys = b.keys,
        .columns = b.columns,
        .valid = b.valid,
        .first_query = b.first - b.begin,
        .causal = size.causal,
        .window = size.window,
        .query_mask =
            masks.queries == nullptr ? nullptr : masks.queries + sample * size.queries + b.first,
        .key_mask = masks.keys == nullptr ? nullptr : masks.keys + sample * size.keys + b.begin,
        .largest = largest,
        .factor = factor,
        .known = again});
  }

  /// With the scores, or in backward their gradient, at `to`.
  [[nodiscard]] AdditiveScores<T> additive(const Block& b, const T* packed, T* to) const {
    return {packed,          k + b.begin,  size.key_size,
            size.key_stride, b.keys,       b.columns,
            scores.weights,  scores.scale, to};
  }

  /// Negates those of the block's probabilities that are dropped, which keeps both what they are
  /// and that they are dropped; `random` is scratch.
  void drop(const Block& b, T* probabilities, T* random) const {
    for (std::size_t column = 0; column < b.columns; column += batch_multiple) {
      std::array<std::uint64_t, batch_multiple> keys{};
      for (std::size_t i = 0; i < batch_multiple; ++i)
        keys[i] = dropout.query_key(size, sample, head, b.first + column + i).value();
      dispatch(RandomMask<T>{.keys = keys.data(),
                             .threshold = dropout.threshold,
                             .features = b.keys,
                             .stride = b.columns,
                             .to = random + column});
    }
    sweep(
        b.keys * b.columns,
        [](auto& p, const auto& factor)
            LOCKSTEP_KERNEL_LAMBDA { p *= factor + factor - std::decay_t<decltype(p)>(T(1)); },
        probabilities, static_cast<const T*>(random));
  }

  /// What is left of them.
  void keep(const Block& b, const T* probabilities, T* to) const {
    const T scale = static_cast<T>(dropout.scale);
    sweep(
        b.keys * b.columns,
        [scale](const auto& p, auto& left) LOCKSTEP_KERNEL_LAMBDA {
          using P = std::decay_t<decltype(p)>;
          left = max(p, P(T(0))) * P(scale);
        },
        probabilities, to);
  }
};

}  // namespace detail

/// o from q, k and v. Nothing is written beyond the samples.
template <class T>
void attention_forward(const AttentionSize& s, const T* q, const T* k, const T* v,
                       const AttentionMasks<T>& masks, const AttentionDropout& dropout, T* o,
                       T* kept, T* work, const AttentionScores<T>& scores = {}) {
  const detail::AttentionWork parts(s);
  T* const left = work + parts.scores;
  T* const random = left + parts.scores;
  T* const packed = random + parts.scores;
  for (std::size_t sample = 0; sample < s.samples; ++sample)
    for (std::size_t head = 0; head < s.heads; ++head, kept += detail::attention_kept_of_head(s)) {
      const std::size_t query = sample * s.queries, key = sample * s.keys;
      const detail::AttentionHead<T> one{s,
                                         masks,
                                         dropout,
                                         scores,
                                         q + head * s.key_size * s.query_stride + query,
                                         k + head / s.group * s.key_size * s.key_stride + key,
                                         kept,
                                         work,
                                         sample,
                                         head};
      one.for_each_block([&](const auto& b) {
        T* p = attention_keeps_probabilities(s) ? kept + b.first * s.keys : work;
        one.probabilities(b, p, packed, false);
        if (dropout.threshold > 0) {
          one.drop(b, p, random);
          one.keep(b, p, left);
          p = left;
        }
        multiply_parts<T>({o + head * s.value_size * s.query_stride + query + b.first, s.value_size,
                           b.valid, s.query_stride},
                          v + head / s.group * s.value_size * s.key_stride + key + b.begin, p,
                          b.keys, {.a_row = s.key_stride, .a = 1, .b = {b.columns}});
      });
    }
}

/// The arrays of attention's backward.
template <class T>
struct AttentionGradients {
  const T *q, *k, *v;
  const T* o;       ///< what forward has computed
  const T* output;  ///< gradient of o
  T *dq, *dk, *dv;  ///< may be q, k and v
};

/// dq, dk and dv from what forward has left. Nothing is written beyond the samples.
template <class T>
void attention_backward(const AttentionSize& s, const AttentionGradients<T>& arrays,
                        const AttentionMasks<T>& masks, const AttentionDropout& dropout, T* kept,
                        T* work, const AttentionScores<T>& scores = {}) {
  const detail::AttentionWork parts(s);
  T* const gradient = work + parts.scores;
  T* const left = gradient + parts.scores;  // after dropout; before, scratch of it
  T* const packed_q = left + parts.scores;
  T* const transposed_q = packed_q + parts.packed;
  T* const packed_output = transposed_q + parts.packed;
  T* const transposed_output = packed_output + parts.packed;
  T* const key_result = transposed_output + parts.packed;
  T* const value_result = key_result + parts.result;
  T* const sums = value_result + parts.result + 2 * parts.block;
  const std::size_t key_step = padded_columns(s.key_size),
                    value_step = padded_columns(s.value_size);
  const bool is_product = scores.weights == nullptr;
  const T scale = is_product ? T(1) / std::sqrt(static_cast<T>(s.key_size)) : T(1);
  for (std::size_t sample = 0; sample < s.samples; ++sample)
    for (std::size_t head = 0; head < s.heads; ++head, kept += detail::attention_kept_of_head(s)) {
      const std::size_t query = head * s.key_size * s.query_stride + sample * s.queries;
      const std::size_t shared = head / s.group;  // the head of keys and values
      const std::size_t key = shared * s.key_size * s.key_stride + sample * s.keys;
      const std::size_t value = shared * s.value_size * s.key_stride + sample * s.keys;
      const std::size_t output = head * s.value_size * s.query_stride + sample * s.queries;
      const detail::AttentionHead<T> one{
          s, masks, dropout, scores, arrays.q + query, arrays.k + key, kept, work, sample, head};
      if (head % s.group == 0) {
        std::fill_n(key_result, s.keys * key_step, T(0));
        std::fill_n(value_result, s.keys * value_step, T(0));
      }
      one.for_each_block([&](const auto& b) {
        T* p = kept + b.first * s.keys;
        if (!attention_keeps_probabilities(s)) {
          p = work;
          one.probabilities(b, p, packed_q, true);
          if (dropout.threshold > 0) one.drop(b, p, left);
        }
        dispatch(TransposePart<T>{arrays.q + query + b.first, s.key_size, b.valid, s.query_stride,
                                  transposed_q, key_step, key_step});
        const T* const d_output = arrays.output + output + b.first;
        dispatch(TransposePart<T>{d_output, s.value_size, b.valid, s.query_stride,
                                  transposed_output, value_step, value_step});
        dispatch(PackColumns<T>{d_output, s.value_size, s.query_stride, b.valid, b.columns, T(1),
                                packed_output});
        dispatch(ColumnProducts<T>{packed_output, arrays.o + output + b.first, s.value_size,
                                   s.query_stride, b.valid, b.columns, sums});
        const T* used = p;
        if (dropout.threshold > 0) {
          one.keep(b, p, left);
          used = left;
        }
        multiply_parts<T>({value_result + b.begin * value_step, b.keys, s.value_size, value_step},
                          used, transposed_output, b.valid,
                          {.a_row = b.columns, .a = 1, .b = {value_step}}, true);
        multiply_parts<T>({gradient, b.keys, b.columns, b.columns}, arrays.v + value + b.begin,
                          packed_output, s.value_size,
                          {.a_row = 1, .a = s.key_stride, .b = {b.columns}});
        dispatch(AttentionGradient<T>{p, gradient, b.keys, b.columns, sums, scale,
                                      static_cast<T>(dropout.threshold > 0 ? dropout.scale : 1)});
        if (!is_product) {
          dispatch(PackColumns<T>{arrays.q + query + b.first, s.key_size, s.query_stride, b.valid,
                                  b.columns, T(1), packed_q});
          dispatch(AdditiveGradients<T>{.scores = one.additive(b, packed_q, gradient),
                                        .valid = b.valid,
                                        .query_stride = s.query_stride,
                                        .key_step = key_step,
                                        .dq = arrays.dq + query + b.first,
                                        .dk = key_result + b.begin * key_step,
                                        .weight_gradients = scores.weight_gradients,
                                        .scale_gradient = scores.scale_gradient});
          return;
        }
        multiply_parts<T>({key_result + b.begin * key_step, b.keys, s.key_size, key_step}, gradient,
                          transposed_q, b.valid, {.a_row = b.columns, .a = 1, .b = {key_step}},
                          true);
        multiply_parts<T>({arrays.dq + query + b.first, s.key_size, b.valid, s.query_stride},
                          arrays.k + key + b.begin, gradient, b.keys,
                          {.a_row = s.key_stride, .a = 1, .b = {b.columns}});
      });
      if ((head + 1) % s.group != 0) continue;
      dispatch(TransposePart<T>{key_result, s.keys, s.key_size, key_step, arrays.dk + key, s.keys,
                                s.key_stride});
      dispatch(TransposePart<T>{value_result, s.keys, s.value_size, value_step, arrays.dv + value,
                                s.keys, s.key_stride});
    }
}

LOCKSTEP_EXTERN(void attention_forward<float>(const AttentionSize&, const float*, const float*,
                                              const float*, const AttentionMasks<float>&,
                                              const AttentionDropout&, float*, float*, float*,
                                              const AttentionScores<float>&));
LOCKSTEP_EXTERN(void attention_backward<float>(
    const AttentionSize&, const AttentionGradients<float>&, const AttentionMasks<float>&,
    const AttentionDropout&, float*, float*, const AttentionScores<float>&));
LOCKSTEP_EXTERN_DOUBLE(void attention_forward<double>(const AttentionSize&, const double*,
                                                      const double*, const double*,
                                                      const AttentionMasks<double>&,
                                                      const AttentionDropout&, double*, double*,
                                                      double*, const AttentionScores<double>&));
LOCKSTEP_EXTERN_DOUBLE(void attention_backward<double>(
    const AttentionSize&, const AttentionGradients<double>&, const AttentionMasks<double>&,
    const AttentionDropout&, double*, double*, const AttentionScores<double>&));

}}}  // namespace lockstep::kernels
