// What a worker says to a server when it begins a fit.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/numbers.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

inline constexpr std::uint64_t ps_longest_signature = std::uint64_t{1} << 24;  ///< with the rest

struct PsBeginning {
  std::uint64_t fit = 0;       ///< the number of the fit: 1 is a worker's first
  std::string_view signature;  ///< the program's
  std::string_view given;      ///< to this fit: its options and data
};

/// Of the text of a message, which must outlive it: the number, the signature, a null character,
/// and what was given. Throws ConnectionLost when there is no number.
[[nodiscard]] inline PsBeginning parse_beginning(std::string_view text) {
  std::array<std::byte, 8> number{};
  if (text.size() < number.size()) throw ConnectionLost("begins no fit");
  std::memcpy(number.data(), text.data(), number.size());
  PsBeginning beginning;
  unpack_numbers(number, beginning.fit);
  text.remove_prefix(number.size());
  beginning.signature = text.substr(0, text.find('\0'));
  beginning.given = text.substr(std::min(beginning.signature.size() + 1, text.size()));
  return beginning;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
