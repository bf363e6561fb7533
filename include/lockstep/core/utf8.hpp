// Whether bytes are a text in UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// True for well-formed UTF-8 (The Unicode Standard, table 3-7): no misplaced byte, no overlong
/// encoding, no surrogate, nothing above U+10FFFF. The empty text is well-formed.
[[nodiscard]] constexpr bool is_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(text[i]));
  };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = byte(i++);
    if (first < 0x80) continue;
    const std::size_t more = first >= 0xC2 && first < 0xE0   ? 1
                             : first >= 0xE0 && first < 0xF0 ? 2
                             : first >= 0xF0 && first < 0xF5 ? 3
                                                             : 0;
    if (more == 0 || text.size() - i < more) return false;
    const unsigned second = byte(i);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return false;
    if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return false;
    for (const std::size_t end = i + more; i < end; ++i)
      if ((byte(i) & 0xC0) != 0x80) return false;
  }
  return true;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
