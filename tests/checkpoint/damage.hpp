// What may happen to a file.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep_test {

/// What `decode` makes of bytes; nothing when it refuses them by a DataError. Any other exception
/// is passed on.
template <class Decode>
auto decoded(const Decode& decode, std::span<const std::byte> bytes)
    -> std::optional<decltype(decode(bytes))> {
  try {
    return decode(bytes);
  } catch (const lockstep::DataError&) {
    return std::nullopt;
  }
}

/// Every truncation must be refused. Memory ends where the bytes end, so that the address sanitizer
/// sees a read behind.
template <class Decode>
void check_truncations(const Decode& decode, const std::vector<std::byte>& bytes) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    const std::vector<std::byte> cut(bytes.begin(),
                                     bytes.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_FALSE(decoded(decode, cut).has_value());
  }
}

/// Changes one byte, 10,000 times. Returns how often the result was taken, and was not `expected`.
template <class Decode, class Result>
int silent_changes(const Decode& decode, const std::vector<std::byte>& bytes,
                   const Result& expected) {
  lockstep::RandomStream random{lockstep::RandomKey(1)};
  int silent = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::vector<std::byte> changed = bytes;
    changed[random.below(changed.size())] ^= static_cast<std::byte>(1 + random.below(255));
    const auto result = decoded(decode, changed);
    if (result && *result != expected) ++silent;
  }
  return silent;
}

}  // namespace lockstep_test
