// Characters of UTF-8, and what kind each is of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/extra/text/detail/unicode_classes.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

struct Character {
  char32_t code;     ///< U+FFFD for bytes that are no UTF-8
  std::size_t size;  ///< bytes
};

/// The character at the beginning of a text, which is not empty. Of bytes that are no UTF-8, as
/// many as a decoder replaces by one U+FFFD (The Unicode Standard, table 3-8).
[[nodiscard]] inline Character first_character(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t size = first < 0xC2   ? 1
                           : first < 0xE0 ? 2
                           : first < 0xF0 ? 3
                           : first < 0xF5 ? 4
                                          : 1;
  if (size == 1) return {0xFFFD, 1};
  char32_t code = first & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    const char32_t low = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const char32_t high = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (i == text.size() || byte(i) < low || byte(i) > high) return {0xFFFD, i};
    code = code << 6 | (byte(i) & 0x3F);
  }
  return {code, size};
}

/// \p{L}, \p{N} and \s of regular expressions.
enum class CharacterClass : std::uint8_t { other, letter, number, space };

[[nodiscard]] inline CharacterClass class_of_character(char32_t code) {
  static const std::vector<CharacterClass> classes = [] {
    std::vector<CharacterClass> made;
    for (std::size_t i = 0; i < unicode_classes.size();) {
      unsigned digit = static_cast<unsigned char>(unicode_classes[i++]) - unsigned{'?'};
      const auto kind = static_cast<CharacterClass>(digit >> 4);
      std::size_t length = digit & 7;
      bool more = (digit & 8) != 0;
      for (unsigned shift = 3; more; shift += 5) {
        digit = static_cast<unsigned char>(unicode_classes[i++]) - unsigned{'?'};
        length |= std::size_t{digit & 31} << shift;
        more = (digit & 32) != 0;
      }
      made.insert(made.end(), length, kind);
    }
    return made;
  }();
  return code < classes.size() ? classes[code] : CharacterClass::other;
}

}}}  // namespace lockstep::detail
