#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

LOCKSTEP_INLINE std::string number_text(double value) { return concat({value}); }

LOCKSTEP_INLINE std::string number_text(double value, NumberForm form, int digits) {
  const std::chars_format format = form == NumberForm::fixed        ? std::chars_format::fixed
                                   : form == NumberForm::scientific ? std::chars_format::scientific
                                                                    : std::chars_format::general;
  // (the largest double has 309 digits before the point, the smallest 1074 behind it)
  std::string text(static_cast<std::size_t>(std::max(digits, 0)) + 1500, '\0');
  char* const begin = text.data();
  char* const end = begin + text.size();
  const auto written = digits < 0 ? std::to_chars(begin, end, value, format)
                                  : std::to_chars(begin, end, value, format, digits);
  text.resize(static_cast<std::size_t>(written.ptr - begin));
  return text;
}

LOCKSTEP_INLINE std::string hex_text(std::uint64_t number, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i > 0; --i, number >>= 4)
    text[i - 1] = "0123456789abcdef"[number & 15];
  return text;
}

namespace detail {

/// Whether a character can be seen: none of Unicode's controls, of its marks of direction, or
/// without a width.
LOCKSTEP_INLINE bool is_visible(char32_t c) noexcept {
  return c >= 0x20 && !(c >= 0x7F && c < 0xA0) && !(c >= 0x200B && c <= 0x200F) &&
         !(c >= 0x2028 && c <= 0x202E) && !(c >= 0x2060 && c <= 0x206F) && c != 0xFEFF;
}

LOCKSTEP_INLINE std::string show(std::string_view text, std::size_t most, std::string_view kept) {
  std::string shown;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    std::size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    const bool is_whole = text.size() >= size && is_utf8(text.substr(0, size));
    char32_t c = first < 0x80 ? first : first & (0x7FU >> size);
    for (std::size_t i = 1; i < size && is_whole; ++i)
      c = c << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
    if (!is_whole) size = 1;
    const bool is_shown =
        is_whole && (is_visible(c) || kept.find(text[0]) != std::string_view::npos);
    if (shown.size() + (is_shown ? size : 1) > most) return shown + "...";
    shown += is_shown ? text.substr(0, size) : "?";
    text.remove_prefix(size);
  }
  return shown;
}

}  // namespace detail

LOCKSTEP_INLINE std::string printable(std::string_view text, std::size_t most) {
  return detail::show(text, most, {});
}

LOCKSTEP_INLINE std::string in_quotes(std::string_view text, std::size_t most) {
  return concat({"'", printable(text, most), "'"});
}

LOCKSTEP_INLINE std::string printable_message(std::string_view text) {
  return detail::show(text, std::size_t{1} << 14, "\n\t");
}

LOCKSTEP_INLINE std::string shape_text(std::span<const std::size_t> extents) {
  std::string text = "(";
  for (const std::size_t extent : extents) text += concat({text.size() > 1 ? ", " : "", extent});
  return text + ")";
}

namespace detail {

LOCKSTEP_INLINE std::string json_text(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20) {
      json += "\\u00";
      json += digits[code / 16];
      json += digits[code % 16];
    } else {
      if (c == '"' || c == '\\') json += '\\';
      json += c;
    }
  }
  return json + '"';
}

LOCKSTEP_INLINE std::string python_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  const double size = std::abs(number);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  std::string text = number_text(number, fixed ? NumberForm::fixed : NumberForm::scientific);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

LOCKSTEP_INLINE std::string json_number(double number) {
  return std::isfinite(number) ? python_number(number) : "null";
}

}  // namespace detail

}}  // namespace lockstep
