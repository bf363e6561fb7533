#pragma once

#include <charconv>

#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// Returns how many of `digits` are the number's.
template <class N>
std::size_t write_number(char (&digits)[32], N number) noexcept {
  return static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, number).ptr -
                                  digits);
}

}  // namespace detail

LOCKSTEP_INLINE void TextPiece::write(std::int64_t number) noexcept {
  text_ = digits_;
  size_ = detail::write_number(digits_, number);
}

LOCKSTEP_INLINE void TextPiece::write(std::uint64_t number) noexcept {
  text_ = digits_;
  size_ = detail::write_number(digits_, number);
}

LOCKSTEP_INLINE void TextPiece::write(double number) noexcept {
  text_ = digits_;
  size_ = detail::write_number(digits_, number);
}

LOCKSTEP_INLINE std::string concat(std::initializer_list<TextPiece> pieces) {
  std::size_t size = 0;
  for (const TextPiece& piece : pieces) size += piece.view().size();
  std::string text;
  text.reserve(size);
  for (const TextPiece& piece : pieces) text.append(piece.view());
  return text;
}

LOCKSTEP_INLINE std::string printable(std::string_view text, std::size_t most) {
  std::string shown(text.substr(0, most));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  if (text.size() > most) shown += "...";
  return shown;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
