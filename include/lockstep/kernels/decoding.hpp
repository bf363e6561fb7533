// What a language model does with one token at a time, beside the products of few_samples.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Attention of one query over cached keys and values, for kernels::dispatch. In the cache the
/// positions of a feature lie one after the other, in any order; what follows them up to a multiple
/// of 16 is finite.
template <class T>
struct CachedAttention {
  std::size_t heads = 0;
  std::size_t group = 1;  ///< heads of queries that share one of keys and values
  std::size_t key_size = 0;
  std::size_t value_size = 0;
  std::size_t positions = 0;  ///< in the cache, at least 1
  std::size_t stride = 0;     ///< between the cache's features, a multiple of 16
  const T* q = nullptr;       ///< [heads][key_size]
  const T* keys = nullptr;    ///< [heads / group][key_size][stride]
  const T* values = nullptr;  ///< [heads / group][value_size][stride]
  T* scores = nullptr;        ///< scratch, `stride` elements
  T* o = nullptr;             ///< [heads][value_size]

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const CachedAttention s = *this;
    const T scale = T(1) / std::sqrt(static_cast<T>(s.key_size));
    const std::size_t end = (s.positions + P::size - 1) / P::size * P::size;
    for (std::size_t head = 0; head < s.heads; ++head) {
      const T* const query = s.q + head * s.key_size;
      const T* const keys_of_head = s.keys + head / s.group * s.key_size * s.stride;
      std::size_t at = 0;
      for (; at + 4 * P::size <= end; at += 4 * P::size)
        s.template score<P, 4>(query, keys_of_head, at, scale);
      for (; at < end; at += P::size) s.template score<P, 1>(query, keys_of_head, at, scale);
      std::fill(s.scores + s.positions, s.scores + end, s.scores[0]);
      P tops(static_cast<const T*>(s.scores));
      for (at = P::size; at < end; at += P::size)
        tops = max(P(static_cast<const T*>(s.scores + at)), tops);
      T top_lanes[P::size];
      tops.store(top_lanes);
      const P top(*std::max_element(top_lanes, top_lanes + P::size));
      for (at = 0; at < end; at += P::size)
        exp(P(static_cast<const T*>(s.scores + at)) - top).store(s.scores + at);
      std::fill(s.scores + s.positions, s.scores + end, T(0));
      P sums(T(0));
      for (at = 0; at < end; at += P::size) sums += P(static_cast<const T*>(s.scores + at));
      const T factor = T(1) / sum_of_lanes<T>(sums.v);
      const T* const values_of_head = s.values + head / s.group * s.value_size * s.stride;
      T* const to = s.o + head * s.value_size;
      std::size_t f = 0;
      for (; f + 4 <= s.value_size; f += 4)
        s.template mean<P, 4>(values_of_head + f * s.stride, end, factor, to + f);
      for (; f < s.value_size; ++f)
        s.template mean<P, 1>(values_of_head + f * s.stride, end, factor, to + f);
    }
  }

 private:
  template <class P, std::size_t Vectors>
  LOCKSTEP_KERNEL void score(const T* query, const T* keys_of_head, std::size_t at, T scale) const {
    P sums[Vectors];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Vectors; ++i) sums[i] = P(T(0));
    for (std::size_t f = 0; f < key_size; ++f) {
      const P factor(query[f]);
      const T* const row = keys_of_head + f * stride + at;
#pragma GCC unroll 4
      for (std::size_t i = 0; i < Vectors; ++i)
        sums[i] = multiply_add(factor, P(row + i * P::size), sums[i]);
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Vectors; ++i) (sums[i] * P(scale)).store(scores + at + i * P::size);
  }
  template <class P, std::size_t Features>
  LOCKSTEP_KERNEL void mean(const T* rows, std::size_t end, T factor, T* to) const {
    P sums[Features];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Features; ++i) sums[i] = P(T(0));
    for (std::size_t at = 0; at < end; at += P::size) {
      const P weight(static_cast<const T*>(scores + at));
#pragma GCC unroll 4
      for (std::size_t i = 0; i < Features; ++i)
        sums[i] = multiply_add(weight, P(rows + i * stride + at), sums[i]);
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Features; ++i) to[i] = sum_of_lanes<T>(sums[i].v) * factor;
  }
};

/// y[unit * stride + row] = sum over f of table[unit][f] * x[row][f], for kernels::dispatch: a few
/// rows times a table that is read once, in its order. A row's bits do not depend on the others.
template <class T>
struct TableProduct {
  std::size_t units = 0;
  std::size_t features = 0;
  std::size_t rows = 0;
  const T* table = nullptr;  ///< [units][features]
  const T* x = nullptr;      ///< [rows][features]
  std::size_t stride = 0;
  T* y = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const TableProduct s = *this;
    std::size_t unit = 0;
    for (; unit + 4 <= s.units; unit += 4)
      for (std::size_t row = 0; row < s.rows; ++row) s.template sums<P, 4>(unit, row);
    for (; unit < s.units; ++unit)
      for (std::size_t row = 0; row < s.rows; ++row) s.template sums<P, 1>(unit, row);
  }

 private:
  template <class P, std::size_t Units>
  LOCKSTEP_KERNEL void sums(std::size_t unit, std::size_t row) const {
    const T* const of_table = table + unit * features;
    const T* const of_x = x + row * features;
    P totals[Units];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Units; ++i) totals[i] = P(T(0));
    std::size_t f = 0;
    for (; f + P::size <= features; f += P::size) {
      const P value(of_x + f);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < Units; ++i)
        totals[i] = multiply_add(value, P(of_table + i * features + f), totals[i]);
    }
    if (f < features) {
      const P value = P::load_first(of_x + f, features - f);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < Units; ++i)
        totals[i] = multiply_add(value, P::load_first(of_table + i * features + f, features - f),
                                 totals[i]);
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < Units; ++i)
      y[(unit + i) * stride + row] = sum_of_lanes<T>(totals[i].v);
  }
};

LOCKSTEP_KERNEL_INSTANCES(CachedAttention);
LOCKSTEP_KERNEL_INSTANCES(TableProduct);

}}}  // namespace lockstep::kernels
