// Random masks for many samples at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/vector.hpp"

namespace lockstep::inline LOCKSTEP_ABI::kernels {

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
  struct WordsOf {
    // g++ takes this attribute of a dependent type in a typedef only.
    // NOLINTNEXTLINE(modernize-use-using)
    typedef std::uint64_t type __attribute__((vector_size(Isa::vector_bytes)));
  };

  /// product = a * b, for words of 32 bits.
  template <class Words>
  static LOCKSTEP_KERNEL void multiply(Words& product, const Words& a, std::uint32_t b) {
    const Words factor = Words{} + b;
#if defined(__x86_64__) && !defined(__clang__)
    // g++ does not see that the upper halves are zero, and makes three products and two sums of
    // one. (It inlines no intrinsic into a function without the target's attribute, but checks
    // built-in functions after inlining.)
    using Halves = typename VectorTypes<float, sizeof(Words)>::mask;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // nothing is passed or returned: all of it is inlined
    if constexpr (sizeof(Words) == 16)
      product = reinterpret_cast<Words>(
          __builtin_ia32_pmuludq128(reinterpret_cast<Halves>(a), reinterpret_cast<Halves>(factor)));
    else if constexpr (sizeof(Words) == 32)
      product = reinterpret_cast<Words>(
          __builtin_ia32_pmuludq256(reinterpret_cast<Halves>(a), reinterpret_cast<Halves>(factor)));
    else
#pragma GCC diagnostic pop
#endif
      product = a * factor;
  }

  /// philox4x32 for a vector of samples, with a word of each in the lower half of each lane:
  /// products need all of a lane.
  template <class Isa>
  LOCKSTEP_KERNEL void write(std::uint64_t block, const std::uint64_t* sample_keys, std::size_t count, T* first) const {
    using Words = typename WordsOf<Isa>::type;
    using Values = Vector<double, Isa>;
    constexpr std::uint64_t low = 0xFFFFFFFF;
    Words key;
    std::memcpy(&key, sample_keys, sizeof key);
    Words key0 = key & low, key1 = key >> 32;
    Words words[4] = {Words{} + (block & low), Words{} + (block >> 32), Words{}, Words{}};
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
    for (std::size_t word = 0; word < count; ++word) {
      const Values values = words[word] >= threshold ? Values{} + static_cast<double>(scale) : Values{};
      for (std::size_t i = 0; i < lanes<double, Isa>; ++i) first[word * stride + i] = static_cast<T>(values[i]);
    }
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels
