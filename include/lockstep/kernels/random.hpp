// Random numbers of layers: masks of Dropout, and normal ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numbers>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/philox.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// to[f * stride + sample] = scale where number f of RandomStream(keys[sample]) is at least
/// `threshold`, else 0, for features f in [0, features) and batch_multiple samples, for
/// kernels::dispatch. It is the same on every instruction set.
template <class T>
struct RandomMask {
  const std::uint64_t* keys = nullptr;  ///< RandomKey::value() of each sample
  std::uint64_t threshold = 0;          ///< at most 2^32
  T scale = 1;
  std::size_t features = 0;
  std::size_t stride = 0;  ///< from feature to feature
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    for (std::size_t block = 0; block < (features + 3) / 4; ++block)
      for (std::size_t sample = 0; sample < batch_multiple; sample += lanes<double, Isa>)
        write<Isa>(block, keys + sample, std::min<std::size_t>(4, features - 4 * block),
                   to + 4 * block * stride + sample);
  }

 private:
  template <class Isa>
  LOCKSTEP_KERNEL void write(std::uint64_t block, const std::uint64_t* sample_keys,
                             std::size_t count, T* first) const {
    using Values = Vector<double, Isa>;
    typename Philox<Isa>::Words words[4];
    Philox<Isa>::generate(block, sample_keys, words);
    for (std::size_t word = 0; word < count; ++word) {
      const Values values =
          words[word] >= threshold ? Values{} + static_cast<double>(scale) : Values{};
      for (std::size_t i = 0; i < lanes<double, Isa>; ++i)
        first[word * stride + i] = static_cast<T>(values[i]);
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(RandomMask);

namespace detail {

/// ln u for normal numbers above 0, a few ulp wrong.
template <class Words, class P>
LOCKSTEP_KERNEL P log_of(const P& u) {
  Words bits;
  std::memcpy(&bits, &u.v, sizeof bits);
  const P exponent = to_double<P>(Words(bits >> 52)) - P(1023.0);
  const Words fraction = (bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U;
  P mantissa;
  std::memcpy(&mantissa.v, &fraction, sizeof fraction);
  return multiply_add(exponent, P(std::numbers::ln2), log1p(mantissa - P(1.0)));
}

/// Sine and cosine of 2 pi v for v in [0, 1), with an error below 1e-12: those of what is left of
/// the nearest quarter of a turn, by their series.
template <class P>
LOCKSTEP_KERNEL void sine_and_cosine(const P& v, P& sine, P& cosine) {
  const P rounder(6755399441055744.0);
  const P quarter = multiply_add(v, P(4.0), rounder) - rounder;
  const P rest = (v * P(4.0) - quarter) * P(std::numbers::pi / 2);
  const P square = rest * rest;
  const P s = rest * polynomial(square, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                                -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0);
  const P c = polynomial(square, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320,
                         -1.0 / 720, 1.0 / 24, -1.0 / 2, 1.0);
  const auto odd = (quarter == P(1.0)) | (quarter == P(3.0));
  const P across = select(odd, c, s), along = select(odd, s, c);
  sine = select((quarter == P(2.0)) | (quarter == P(3.0)), -across, across);
  cosine = select((quarter == P(1.0)) | (quarter == P(2.0)), -along, along);
}

}  // namespace detail

/// to[f * stride + sample] = mean + deviation * number f of a standard normal sequence of
/// RandomStream(keys[sample]), for features f in [0, features) and batch_multiple samples, for
/// kernels::dispatch. Words 2 i and 2 i + 1 of the stream, a and b, make the numbers 2 i and 2 i +
/// 1: sqrt(-2 ln u) times the cosine and the sine of 2 pi b / 2^32, where u = (a + 1) / 2^32. (Box,
/// Muller, "A note on the generation of random normal deviates", 1958.)
template <class T>
struct RandomNormal {
  const std::uint64_t* keys = nullptr;  ///< RandomKey::value() of each sample
  double mean = 0;
  double deviation = 1;
  std::size_t features = 0;
  std::size_t stride = 0;  ///< from feature to feature
  T* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    for (std::size_t block = 0; block < (features + 3) / 4; ++block)
      for (std::size_t sample = 0; sample < batch_multiple; sample += lanes<double, Isa>)
        write<Isa>(block, keys + sample, std::min<std::size_t>(4, features - 4 * block),
                   to + 4 * block * stride + sample);
  }

 private:
  template <class Isa>
  LOCKSTEP_KERNEL void write(std::uint64_t block, const std::uint64_t* sample_keys,
                             std::size_t count, T* first) const {
    using P = Pack<double, Isa::vector_bytes>;
    using Words = typename Philox<Isa>::Words;
    Words words[4];
    Philox<Isa>::generate(block, sample_keys, words);
    P numbers[4];
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      const P u = (detail::to_double<P>(words[pair]) + P(1.0)) * P(0x1p-32);
      const P radius = sqrt(P(-2.0) * detail::log_of<Words>(u)) * P(deviation);
      P sine, cosine;
      detail::sine_and_cosine(detail::to_double<P>(words[pair + 1]) * P(0x1p-32), sine, cosine);
      numbers[pair] = multiply_add(radius, cosine, P(mean));
      numbers[pair + 1] = multiply_add(radius, sine, P(mean));
    }
    for (std::size_t k = 0; k < count; ++k) {
      double values[P::size];
      numbers[k].store(values);
      for (std::size_t i = 0; i < P::size; ++i) first[k * stride + i] = static_cast<T>(values[i]);
    }
  }
};

LOCKSTEP_KERNEL_INSTANCES(RandomNormal);

}}}  // namespace lockstep::kernels
