// Sizes and conditions of attention.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/kernels/product_layout.hpp"

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
  std::size_t window = 0;  ///< with `causal`: of these the last ones, so many; 0: all
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

}}}  // namespace lockstep::kernels
