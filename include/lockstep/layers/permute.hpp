// Permute: the dimensions of a sample in another order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/layers/concepts.hpp"
#include "lockstep/layers/pass.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

}  // namespace lockstep::inline LOCKSTEP_ABI
