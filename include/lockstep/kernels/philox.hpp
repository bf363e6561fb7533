// Philox4x32-10 for many keys or blocks at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// Whole numbers below 2^32, as doubles.
template <class P, class Words>
LOCKSTEP_KERNEL P to_double(const Words& words) {
  const Words bits = words | 0x4330000000000000U;  // 2^52 + word
  P result;
  std::memcpy(&result.v, &bits, sizeof bits);
  return result - P(0x1p52);
}

}  // namespace detail

/// Words of 32 bits, in the lower halves of the lanes of a vector: one for each of lanes<double,
/// Isa> keys. (Products need all of a lane.)
template <class Isa>
struct Philox {
  // g++ takes this attribute of a dependent type in a typedef only.
  // NOLINTNEXTLINE(modernize-use-using)
  typedef std::uint64_t Words __attribute__((vector_size(Isa::vector_bytes)));

  /// Numbers 4 * block ... 4 * block + 3 of RandomStream(key), for the keys from `keys` on.
  static LOCKSTEP_KERNEL void generate(std::uint64_t block, const std::uint64_t* keys,
                                       Words (&words)[4]) {
    Words key;
    std::memcpy(&key, keys, sizeof key);
    generate(Words{} + block, key, words);
  }

  /// The same, of a block and a key for each lane.
  static LOCKSTEP_KERNEL void generate(const Words& blocks, const Words& keys, Words (&words)[4]) {
    constexpr std::uint64_t low = 0xFFFFFFFF;
    Words key0 = keys & low, key1 = keys >> 32;
    words[0] = blocks & low;
    words[1] = blocks >> 32;
    words[2] = words[3] = Words{};
    for (int round = 0; round < 10; ++round) {
      Words p0, p1;
      multiply(p0, words[0], 0xD2511F53);
      multiply(p1, words[2], 0xCD9E8D57);
      words[0] = (p1 >> 32) ^ words[1] ^ key0;
      words[2] = (p0 >> 32) ^ words[3] ^ key1;
      words[1] = p1 & low;
      words[3] = p0 & low;
      key0 = (key0 + 0x9E3779B9) & low;
      key1 = (key1 + 0xBB67AE85) & low;
    }
  }

 private:
  /// product = a * b, for words of 32 bits.
  static LOCKSTEP_KERNEL void multiply(Words& product, const Words& a, std::uint32_t b) {
    const Words factor = Words{} + b;
#if defined(__x86_64__) && !defined(__clang__)
    // g++ does not see that the upper halves are zero, and makes three products and two sums of
    // one. (It inlines no intrinsic into a function without the target's attribute, but checks
    // built-in functions after inlining.)
    using Halves = typename VectorTypes<float, Isa::vector_bytes>::mask;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // nothing is passed or returned: all of it is inlined
    if constexpr (Isa::vector_bytes == 16)
      product = reinterpret_cast<Words>(
          __builtin_ia32_pmuludq128(reinterpret_cast<Halves>(a), reinterpret_cast<Halves>(factor)));
    else if constexpr (Isa::vector_bytes == 32)
      product = reinterpret_cast<Words>(
          __builtin_ia32_pmuludq256(reinterpret_cast<Halves>(a), reinterpret_cast<Halves>(factor)));
    else
#pragma GCC diagnostic pop
#endif
      product = a * factor;
  }
};

/// to[2 i] and to[2 i + 1] = what RandomStream(key).uniform() gives from block first + i on, for i
/// in [0, blocks), a multiple of 8, for kernels::dispatch.
struct UniformNumbers {
  std::uint64_t key = 0;  ///< RandomKey::value()
  std::uint64_t first = 0;
  std::size_t blocks = 0;
  double* to = nullptr;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<double, Isa::vector_bytes>;
    using Words = typename Philox<Isa>::Words;
    for (std::size_t i = 0; i < blocks; i += P::size) {
      Words places{}, words[4];
      for (std::size_t lane = 0; lane < P::size; ++lane) places[lane] = first + i + lane;
      Philox<Isa>::generate(places, Words{} + key, words);
      double numbers[2][P::size];
      for (std::size_t half = 0; half < 2; ++half)
        ((detail::to_double<P>(Words(words[2 * half] >> 5)) * P(0x1p26) +
          detail::to_double<P>(Words(words[2 * half + 1] >> 6))) *
         P(0x1p-53))
            .store(numbers[half]);
      for (std::size_t lane = 0; lane < 2 * P::size; ++lane)
        to[2 * i + lane] = numbers[lane % 2][lane / 2];
    }
  }
};

}}}  // namespace lockstep::kernels
