// What attention does to a block of queries beside its products.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/pack.hpp"

// A block has `columns` queries, a multiple of 16; the last ones may be beyond the sequence's end.
// Scores and probabilities are [key][column]: a column belongs to one query, so that softmax works
// down the columns and needs no sum over the lanes of a vector.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// to[f * columns + t] = factor * from[f * stride + t] for features f and t below `valid`, then
/// zeros up to `columns`; for kernels::dispatch.
template <class T>
struct PackColumns {
  const T* from = nullptr;
  std::size_t features = 0;
  std::size_t stride = 0;
  std::size_t valid = 0;
  std::size_t columns = 0;
  T factor = 1;
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const PackColumns s = *this;
    for (std::size_t f = 0; f < s.features; ++f)
      for (std::size_t t = 0; t < s.columns; t += P::size) {
        const std::size_t count = s.valid > t ? s.valid - t : 0;
        (P::load_first(s.from + f * s.stride + t, count) * P(s.factor))
            .store(s.to + f * s.columns + t);
      }
  }
};

/// Scores become probabilities, for kernels::dispatch: exp(score - largest) / sum over the keys
/// that a query sees, 0 for the others, and 0 for all keys of a query that is masked or sees none.
/// (Keras gives masked scores -1e9, and sets masked probabilities to 0: the same.)
template <class T>
struct AttentionSoftmax {
  T* scores = nullptr;  ///< [keys][columns]
  std::size_t keys = 0;
  std::size_t columns = 0;
  std::size_t valid = 0;          ///< queries in the block
  std::size_t first_query = 0;    ///< the block's first
  bool causal = false;            ///< query t sees the keys 0 to t
  std::size_t window = 0;         ///< with `causal`: of these the last ones; 0: all
  const T* query_mask = nullptr;  ///< of `valid` queries: 0 for one that is masked, else 1
  const T* key_mask = nullptr;    ///< the same for the keys; null, as the other: all are 1
  T* largest = nullptr;           ///< of each query's scores, [columns]
  T* factor = nullptr;            ///< 1 / sum, or 0, [columns]
  bool known = false;             ///< largest and factor are known: the same bits once more

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const AttentionSoftmax s = *this;
    T numbers[P::size];
    for (std::size_t i = 0; i < P::size; ++i) numbers[i] = static_cast<T>(i);
    const P lane(static_cast<const T*>(numbers));
    for (std::size_t column = 0; column < s.columns; column += P::size) {
      // All lanes see the keys from `whole` to `seen`, none those before `begin` and from `end` on.
      const std::size_t query = s.first_query + column;
      const auto behind = [&](std::size_t lanes) LOCKSTEP_KERNEL_LAMBDA {  // the window
        return s.window != 0 && query + lanes > s.window ? query + lanes - s.window : 0;
      };
      const std::size_t seen = s.causal ? std::min(s.keys, query + 1) : s.keys;
      const std::size_t end = s.causal ? std::min(s.keys, query + P::size) : s.keys;
      const std::size_t begin = std::min(end, behind(1));
      const std::size_t whole = std::min(seen, behind(P::size));
      T* const first = s.scores + column;
      const auto at = [&](std::size_t key) LOCKSTEP_KERNEL_LAMBDA {
        return P(static_cast<const T*>(first + key * s.columns));
      };
      const auto sees = [&](std::size_t key) LOCKSTEP_KERNEL_LAMBDA {
        const P distance = lane + P(static_cast<T>(query)) - P(static_cast<T>(key));
        const auto is_past = distance >= P(T(0));
        return s.window == 0 ? is_past : is_past & (distance < P(static_cast<T>(s.window)));
      };
      const auto masked = [&](std::size_t key) LOCKSTEP_KERNEL_LAMBDA {
        return s.key_mask != nullptr && s.key_mask[key] == T(0);
      };
      P top(T(0)), scale(T(0));
      if (s.known) {
        top = P(static_cast<const T*>(s.largest + column));
        scale = P(static_cast<const T*>(s.factor + column));
      } else {
        constexpr T lowest = std::numeric_limits<T>::lowest();
        top = P(lowest);
        P other = top;  // (two of them, as each waits for its last result)
        std::size_t key = begin;
        for (; key < whole; ++key)
          if (!masked(key)) top = max(select(sees(key), at(key), P(lowest)), top);
        if (s.key_mask == nullptr) {
          for (; key + 2 <= seen; key += 2) {
            top = max(at(key), top);
            other = max(at(key + 1), other);
          }
        }
        for (; key < seen; ++key)
          if (!masked(key)) top = max(at(key), top);
        for (; key < end; ++key)
          if (!masked(key)) top = max(select(sees(key), at(key), P(lowest)), top);
        top = max(top, other);
        top = select(top == P(lowest), P(T(0)), top);
        top.store(s.largest + column);
      }
      P sum(T(0));
      const auto finish = [&](std::size_t key, const P& value) LOCKSTEP_KERNEL_LAMBDA {
        sum += value;
        (s.known ? value * scale : value).store(first + key * s.columns);
      };
      const auto finish_part = [&](std::size_t key) LOCKSTEP_KERNEL_LAMBDA {
        finish(key, masked(key) ? P(T(0)) : select(sees(key), exp(at(key) - top), P(T(0))));
      };
      std::size_t key = 0;
      for (; key < begin; ++key) P(T(0)).store(first + key * s.columns);
      for (; key < whole; ++key) finish_part(key);
      for (; key < seen; ++key) finish(key, masked(key) ? P(T(0)) : exp(at(key) - top));
      for (; key < end; ++key) finish_part(key);
      for (; key < s.keys; ++key) P(T(0)).store(first + key * s.columns);
      if (s.known) continue;
      scale = select(sum == P(T(0)), P(T(0)), P(T(1)) / sum);
      if (s.query_mask != nullptr)
        scale *= P::load_first(s.query_mask + column, s.valid > column ? s.valid - column : 0);
      scale.store(s.factor + column);
      for (key = begin; key < end; ++key) (at(key) * scale).store(first + key * s.columns);
    }
  }
};

/// Scores of a block that are no products, for kernels::dispatch: to[key][t] = sum over features f
/// of weights[f] tanh(scale (q[f][t] + k[f][key])).
template <class T>
struct AdditiveScores {
  const T* q = nullptr;  ///< [features][columns]
  const T* k = nullptr;  ///< [features][key_stride]
  std::size_t features = 0;
  std::size_t key_stride = 0;
  std::size_t keys = 0;
  std::size_t columns = 0;
  const T* weights = nullptr;
  T scale = 1;
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const AdditiveScores s = *this;
    for (std::size_t t = 0; t < s.columns; t += P::size)
      for (std::size_t key = 0; key < s.keys; ++key) {
        P sum(T(0));
        for (std::size_t f = 0; f < s.features; ++f) {
          const P both = P(s.q + f * s.columns + t) + P(s.k[f * s.key_stride + key]);
          sum = multiply_add(P(s.weights[f]), tanh(P(s.scale) * both), sum);
        }
        sum.store(s.to + key * s.columns + t);
      }
  }
};

/// From the gradient of these scores, for kernels::dispatch: dq, and what comes to dk, to the
/// gradients of the weights and to that of the scale.
template <class T>
struct AdditiveGradients {
  AdditiveScores<T> scores;  ///< `to` is the gradient, zero in the columns from `valid` on
  std::size_t valid = 0;
  std::size_t query_stride = 0;
  std::size_t key_step = 0;
  T* dq = nullptr;                ///< [features][query_stride]
  T* dk = nullptr;                ///< [keys][key_step]
  T* weight_gradients = nullptr;  ///< [features]
  T* scale_gradient = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const AdditiveGradients g = *this;
    const AdditiveScores<T> s = g.scores;
    const auto total = [](const P& value) LOCKSTEP_KERNEL_LAMBDA {
      T lanes[P::size];
      value.store(lanes);
      T sum(0);
      for (std::size_t i = 0; i < P::size; ++i) sum += lanes[i];
      return sum;
    };
    P to_scale(T(0));
    for (std::size_t f = 0; f < s.features; ++f) {
      P to_weight(T(0));
      for (std::size_t t = 0; t < s.columns; t += P::size) {
        P to_query(T(0));
        for (std::size_t key = 0; key < s.keys; ++key) {
          const P both = P(s.q + f * s.columns + t) + P(s.k[f * s.key_stride + key]);
          const P value = tanh(P(s.scale) * both);
          const P gradient(static_cast<const T*>(s.to + key * s.columns + t));
          const P slope = gradient * P(s.weights[f]) * (P(T(1)) - value * value);
          to_weight = multiply_add(gradient, value, to_weight);
          to_scale = multiply_add(slope, both, to_scale);
          to_query += slope;
          g.dk[key * g.key_step + f] += s.scale * total(slope);
        }
        (P(s.scale) * to_query)
            .store_first(g.dq + f * g.query_stride + t, g.valid > t ? g.valid - t : 0);
      }
      g.weight_gradients[f] += total(to_weight);
    }
    *g.scale_gradient += total(to_scale);
  }
};

/// sums[t] = sum over features f of a[f * columns + t] * b[f * stride + t], for t below `valid`,
/// for kernels::dispatch. In softmax's gradient: the sum over the keys of probability times its
/// gradient, from the output and its gradient.
template <class T>
struct ColumnProducts {
  const T* a = nullptr;  ///< zero from `valid` on
  const T* b = nullptr;
  std::size_t features = 0;
  std::size_t stride = 0;
  std::size_t valid = 0;
  std::size_t columns = 0;
  T* sums = nullptr;  ///< [columns]

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const ColumnProducts s = *this;
    for (std::size_t t = 0; t < s.columns; t += P::size) {
      const std::size_t count = s.valid > t ? s.valid - t : 0;
      P sum(T(0));
      for (std::size_t f = 0; f < s.features; ++f)
        sum = multiply_add(P(s.a + f * s.columns + t), P::load_first(s.b + f * s.stride + t, count),
                           sum);
      sum.store(s.sums + t);
    }
  }
};

/// Gradients of probabilities become those of scores, times `factor`: p (dp - sums[t]), for
/// kernels::dispatch. With dropout p is negative where it has been dropped, and dp is the gradient
/// of what was left; `kept` is the factor of the others.
template <class T>
struct AttentionGradient {
  const T* probabilities = nullptr;  ///< [keys][columns]
  T* gradient = nullptr;             ///< the same
  std::size_t keys = 0;
  std::size_t columns = 0;
  const T* sums = nullptr;  ///< [columns]
  T factor = 1;
  T kept = 1;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const AttentionGradient s = *this;
    const P zero(T(0));
    for (std::size_t column = 0; column < s.columns; column += P::size) {
      const P sum(s.sums + column);
      for (std::size_t i = column; i < s.keys * s.columns; i += s.columns) {
        const P p(s.probabilities + i);
        const P dp = P(static_cast<const T*>(s.gradient + i)) * P(s.kept);
        (abs(p) * P(s.factor) * (select(p > zero, dp, zero) - sum)).store(s.gradient + i);
      }
    }
  }
};

}}}  // namespace lockstep::kernels
