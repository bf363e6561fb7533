#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/text/detail/number_writer.hpp"
#include "lockstep/extra/text/hashing.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// `Size` bytes, the lowest one first.
template <std::size_t Size = 8>
std::uint64_t little_endian(const char* bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < Size; ++i)
    number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return number;
}

// FarmHash's Fingerprint64, which is farmhashna::Hash64 (https://github.com/google/farmhash).
namespace farm {

inline constexpr std::uint64_t k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273,
                               k2 = 0x9ae16a3b2f90404f;

inline std::uint64_t right(std::uint64_t number, int bits) { return std::rotr(number, bits); }
inline std::uint64_t mixed(std::uint64_t number) { return number ^ (number >> 47); }
inline std::uint64_t joined(std::uint64_t u, std::uint64_t v, std::uint64_t factor) {
  return mixed((v ^ mixed((u ^ v) * factor)) * factor) * factor;
}

inline std::uint64_t up_to_16(const char* s, std::size_t size) {
  const std::uint64_t factor = k2 + size * 2;
  if (size >= 8) {
    const std::uint64_t a = little_endian(s) + k2, b = little_endian(s + size - 8);
    return joined(right(b, 37) * factor + a, (right(a, 25) + b) * factor, factor);
  }
  if (size >= 4)
    return joined(size + (little_endian<4>(s) << 3), little_endian<4>(s + size - 4), factor);
  if (size == 0) return k2;
  const std::uint64_t y = little_endian<1>(s) + (little_endian<1>(s + (size >> 1)) << 8),
                      z = size + (little_endian<1>(s + size - 1) << 2);
  return mixed(y * k2 ^ z * k0) * k2;
}

struct Pair {
  std::uint64_t first = 0, second = 0;
};

/// The sums of 17 to 64 bytes: `first` before they are joined.
inline Pair both_ends(const char* s, std::size_t size, std::uint64_t factor, std::uint64_t a) {
  const std::uint64_t b = little_endian(s + 8), c = little_endian(s + size - 8) * factor,
                      d = little_endian(s + size - 16) * k2;
  return {right(a + b, 43) + right(c, 30) + d, a + right(b + k2, 18) + c};
}

inline std::uint64_t up_to_64(const char* s, std::size_t size) {
  const std::uint64_t factor = k2 + size * 2;
  if (size <= 32) {
    const Pair sums = both_ends(s, size, factor, little_endian(s) * k1);
    return joined(sums.first, sums.second, factor);
  }
  const std::uint64_t a = little_endian(s) * k2;
  const Pair sums = both_ends(s, size, factor, a);
  const std::uint64_t y = sums.first, z = joined(y, sums.second, factor);
  const std::uint64_t e = little_endian(s + 16) * factor, f = little_endian(s + 24),
                      g = (y + little_endian(s + size - 32)) * factor,
                      h = (z + little_endian(s + size - 24)) * factor;
  return joined(right(e + f, 43) + right(g, 30) + h, e + right(f + a, 18) + g, factor);
}

inline Pair weak(const char* s, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t last = little_endian(s + 24);
  a += little_endian(s);
  b = right(b + a + last, 21);
  const std::uint64_t before = a;
  a += little_endian(s + 8) + little_endian(s + 16);
  return {a + last, b + right(a, 44) + before};
}

/// 56 bytes of state, mixed with 64 bytes at a time.
struct Mixer {
  std::uint64_t x, y, z;
  Pair v = {}, w = {};

  /// The last time with other factors than before.
  void mix(const char* s, std::uint64_t factor, std::uint64_t of_w, std::uint64_t of_v) {
    x = right(x + y + v.first + little_endian(s + 8), 37) * factor;
    y = right(y + v.second + little_endian(s + 48), 42) * factor;
    x ^= w.second * of_w;
    y += v.first * of_v + little_endian(s + 40);
    z = right(z + w.first, 33) * factor;
    v = weak(s, v.second * factor, x + w.first);
    w = weak(s + 32, z + w.second, y + little_endian(s + 16));
    std::swap(z, x);
  }
};

}  // namespace farm

LOCKSTEP_INLINE std::uint64_t fingerprint(std::string_view text) {
  using namespace farm;
  const char* s = text.data();
  const std::size_t size = text.size();
  if (size <= 16) return up_to_16(s, size);
  if (size <= 64) return up_to_64(s, size);
  constexpr std::uint64_t seed = 81;
  Mixer state{.x = seed * k2 + little_endian(s), .y = seed * k1 + 113, .z = 0};
  state.z = mixed(state.y * k2 + 113) * k2;
  const std::size_t rest = (size - 1) % 64;
  for (const char* const last = s + (size - 1 - rest); s != last; s += 64) state.mix(s, k1, 1, 1);
  const std::uint64_t factor = k1 + ((state.z & 0xff) << 1);
  state.w.first += rest;
  state.v.first += state.w.first;
  state.w.first += state.v.first;
  state.mix(text.data() + size - 64, factor, 9, 9);
  return joined(joined(state.v.first, state.w.first, factor) + mixed(state.y) * k0 + state.z,
                joined(state.v.second, state.w.second, factor) + state.x, factor);
}

LOCKSTEP_INLINE std::uint64_t fingerprint(std::uint64_t one, std::uint64_t other) {
  constexpr std::uint64_t factor = 0xc6a4a7935bd1e995;
  std::uint64_t sum = one ^ factor;
  sum ^= farm::mixed(other * factor) * factor;
  return farm::mixed(farm::mixed(sum * factor) * factor);
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012).
inline std::uint64_t sip_hash(std::string_view text, const HashSalt& salt) {
  std::uint64_t v0 = salt.first ^ 0x736f6d6570736575, v1 = salt.second ^ 0x646f72616e646f6d,
                v2 = salt.first ^ 0x6c7967656e657261, v3 = salt.second ^ 0x7465646279746573;
  const auto mix = [&](int rounds) {
    for (; rounds > 0; --rounds) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  };
  const auto take = [&](const char* bytes) {
    const std::uint64_t number = little_endian(bytes);
    v3 ^= number;
    mix(2);
    v0 ^= number;
  };
  std::size_t place = 0;
  for (; place + 8 <= text.size(); place += 8) take(text.data() + place);
  char last[8] = {};
  std::ranges::copy(text.substr(place), last);
  last[7] = static_cast<char>(text.size() & 0xff);
  take(last);
  v2 ^= 0xff;
  mix(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

LOCKSTEP_INLINE std::size_t hash_bin(std::string_view text, std::size_t bins,
                                     const std::optional<HashSalt>& salt) {
  return static_cast<std::size_t>((salt ? sip_hash(text, *salt) : fingerprint(text)) % bins);
}

template <class T>
void TextHash::write(EachText values, std::span<T> x) const {
  NumberWriter<T> writer("Hashing", options_.output_mode, options_.num_bins, {}, x);
  const std::size_t first = values_.mask_value && options_.num_bins > 1 ? 1 : 0;
  values([&](std::string_view value) {
    const bool is_masked = first == 1 && value == *values_.mask_value;
    writer.add(is_masked ? 0 : first + hash_bin(value, options_.num_bins - first, values_.salt));
  });
  writer.finish();
}
LOCKSTEP_INSTANCE_ONCE(void TextHash::write(EachText, std::span<float>) const);
LOCKSTEP_INSTANCE_ONCE(void TextHash::write(EachText, std::span<double>) const);

LOCKSTEP_INLINE std::string TextHash::description() const {
  std::string text = concat({"Hashing ", options_.num_bins, ", ",
                             output_names[static_cast<std::size_t>(options_.output_mode)]});
  if (values_.mask_value) text += concat({", mask ", json_text(*values_.mask_value)});
  if (values_.salt) text += concat({", salt ", values_.salt->first, " ", values_.salt->second});
  return text;
}

LOCKSTEP_INLINE void check_crossed(std::span<const std::size_t> sizes) {
  const auto other = std::ranges::adjacent_find(sizes, std::not_equal_to{});
  if (other != sizes.end())
    throw ConfigurationError(
        concat({"HashedCrossing: expected ranges of one length, got ", shape_text(sizes)}));
}

template <class T>
void write_bin(const HashingOptions& options, std::uint64_t crossed, std::span<T> x) {
  NumberWriter<T> writer("HashedCrossing", options.output_mode, options.num_bins, {}, x);
  writer.add(static_cast<std::size_t>(crossed % options.num_bins));
  writer.finish();
}
LOCKSTEP_INSTANCE_ONCE(void write_bin(const HashingOptions&, std::uint64_t, std::span<float>));
LOCKSTEP_INSTANCE_ONCE(void write_bin(const HashingOptions&, std::uint64_t, std::span<double>));

}}}  // namespace lockstep::detail
