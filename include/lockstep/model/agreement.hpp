// Checks that all ranks run the same program before they train together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}

/// What to say when `theirs` differs from `chiefs`: the first line in which they do. Empty when they are equal.
inline std::string first_difference(std::string_view chiefs, std::string_view theirs, int rank) {
  if (chiefs == theirs) return {};
  const auto take_line = [](std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  for (;;) {
    const std::string_view expected = take_line(chiefs);
    const std::string_view got = take_line(theirs);
    if (expected != got || (chiefs.empty() && theirs.empty()))
      return "rank " + std::to_string(rank) + " has '" + std::string(got) + "', the chief has '" +
             std::string(expected) + "'";
  }
}

/// Compares every rank's description, lines of "what: value", with the chief's. Throws the same ConfigurationError on every
/// rank when one differs, naming that rank and the first line that differs.
template <Collective C>
void agree(C& collective, std::string_view what, std::string_view mine) {
  if (collective.size() == 1) return;
  const auto ranks = static_cast<std::size_t>(collective.size());
  std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(ranks);
  collective.all_gather(bytes_of(length), std::as_writable_bytes(std::span(lengths)));
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  constexpr std::size_t limit = std::size_t{1} << 24;
  if (longest > limit)
    throw ConfigurationError(std::string(what) + ": a rank sent a description of " + std::to_string(longest) +
                             " bytes, at most " + std::to_string(limit) + " are expected: do all run the same program?");
  std::string padded(mine);
  padded.resize(longest);
  std::string all(longest * ranks, '\0');
  collective.all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)));
  const std::string_view chiefs(all.data(), lengths[0]);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const std::string difference =
        first_difference(chiefs, {all.data() + rank * longest, lengths[rank]}, static_cast<int>(rank));
    if (!difference.empty())
      throw ConfigurationError(std::string(what) + ": the workers differ: " + difference +
                               ": start the same program with the same options on every worker");
  }
}

/// Sends a value of the chief's to all ranks.
template <Collective C, class T>
T from_chief(C& collective, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  collective.broadcast(bytes_of(value), 0);
  return value;
}

/// Sends the chief's bytes to all ranks, whatever their number.
template <Collective C>
std::vector<std::byte> bytes_from_chief(C& collective, std::vector<std::byte> bytes) {
  bytes.resize(from_chief(collective, static_cast<std::uint64_t>(bytes.size())));
  if (!bytes.empty()) collective.broadcast(bytes, 0);
  return bytes;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
