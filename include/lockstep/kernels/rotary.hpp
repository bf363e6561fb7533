// Rotary positions: pairs of features turn by an angle that grows with the position.
#pragma once

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
  bool back = false;
  T* x = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Rotary s = *this;
    const std::size_t half = s.features / 2;
    const P sign(s.back ? T(-1) : T(1));
    for (std::size_t pair = 0; pair < s.heads * half; ++pair) {
      const T* const cosines = s.table + pair % half * 2 * s.positions;
      T* const a = s.x + (pair / half * s.features + pair % half) * s.stride;
      T* const b = a + half * s.stride;
      for (std::size_t sample = 0; sample < s.samples; ++sample)
        for (std::size_t t = 0; t < s.positions; t += P::size) {
          const std::size_t at = sample * s.positions + t, count = s.positions - t;
          const P cos = P::load_first(cosines + t, count),
                  sin = sign * P::load_first(cosines + s.positions + t, count),
                  first = P::load_first(a + at, count), second = P::load_first(b + at, count);
          (first * cos - second * sin).store_first(a + at, count);
          (second * cos + first * sin).store_first(b + at, count);
        }
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(Rotary);

}}}  // namespace lockstep::kernels
