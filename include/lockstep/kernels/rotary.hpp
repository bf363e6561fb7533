// Rotary positions: pairs of features turn by an angle that grows with the position.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>

#include "lockstep/core/config.hpp"
#include "lockstep/core/portable_functions.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Elements of a table for `positions` positions of heads of `features` features, an even number.
[[nodiscard]] constexpr std::size_t rotary_table_size(std::size_t features,
                                                      std::size_t positions) noexcept {
  return features * positions;
}

/// Cosines and sines of position * theta^(-2 f / features) for f below features / 2:
/// [f][cosines, then sines][position].
template <class T>
void make_rotary_table(double theta, std::size_t features, std::size_t positions, T* to) {
  for (std::size_t f = 0; f < features / 2; ++f, to += 2 * positions) {
    const double angle =
        1 / portable::power(theta, static_cast<double>(2 * f) / static_cast<double>(features));
    const double cos = portable::cos_pi(angle / std::numbers::pi),
                 sin = portable::cos_pi(0.5 - angle / std::numbers::pi);
    double x = 1, y = 0;  // one turn after the other, in double
    for (std::size_t t = 0; t < positions; ++t) {
      to[t] = static_cast<T>(x);
      to[positions + t] = static_cast<T>(y);
      const double next = x * cos - y * sin;
      y = x * sin + y * cos;
      x = next;
    }
  }
}

/// Turns feature f of each head and position together with feature f + features / 2 (Llama's
/// pairs), for kernels::dispatch: a, b become a cos - b sin, b cos + a sin; with `back` the other
/// way round, which is the gradient. x is [head][feature][stride], the positions of a sample one
/// after the other. Nothing is read or written beyond the samples.
template <class T>
struct Rotary {
  std::size_t heads = 0;
  std::size_t features = 0;
  std::size_t samples = 0;
  std::size_t positions = 0;
  std::size_t stride = 0;
  const T* table = nullptr;
  std::size_t table_positions = 0;  ///< of the table; 0: `positions`
  bool back = false;
  T* x = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Rotary s = *this;
    const std::size_t half = s.features / 2;
    const std::size_t step = s.table_positions == 0 ? s.positions : s.table_positions;
    const P sign(s.back ? T(-1) : T(1));
    for (std::size_t pair = 0; pair < s.heads * half; ++pair) {
      const T* const cosines = s.table + pair % half * 2 * step;
      T* const a = s.x + (pair / half * s.features + pair % half) * s.stride;
      T* const b = a + half * s.stride;
      for (std::size_t sample = 0; sample < s.samples; ++sample)
        for (std::size_t t = 0; t < s.positions; t += P::size) {
          const std::size_t at = sample * s.positions + t, count = s.positions - t;
          const P cos = P::load_first(cosines + t, count),
                  sin = sign * P::load_first(cosines + step + t, count),
                  first = P::load_first(a + at, count), second = P::load_first(b + at, count);
          (first * cos - second * sin).store_first(a + at, count);
          (second * cos + first * sin).store_first(b + at, count);
        }
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(Rotary);

/// The same for one position of one sample, whose features lie one after the other, by a table of
/// `positions`; beyond these it computes cosines and sines.
template <class T>
void rotate_position(double theta, std::size_t heads, std::size_t features, std::size_t position,
                     const T* table, std::size_t positions, T* x) {
  const std::size_t half = features / 2;
  for (std::size_t f = 0; f < half; ++f) {
    T cos{}, sin{};
    if (position < positions) {
      cos = table[2 * f * positions + position];
      sin = table[(2 * f + 1) * positions + position];
    } else {
      const double turns = std::fmod(
          static_cast<double>(position) / std::numbers::pi /
              portable::power(theta, static_cast<double>(2 * f) / static_cast<double>(features)),
          2.0);
      const auto cosine = [](double half_turns) {
        return portable::cos_pi(half_turns > 1 ? 2 - half_turns : half_turns);
      };
      cos = static_cast<T>(cosine(turns));
      sin = static_cast<T>(cosine(std::abs(0.5 - turns)));
    }
    for (std::size_t head = 0; head < heads; ++head) {
      T& a = x[head * features + f];
      T& b = x[head * features + f + half];
      const T first = a;
      a = first * cos - b * sin;
      b = b * cos + first * sin;
    }
  }
}

}}}  // namespace lockstep::kernels
