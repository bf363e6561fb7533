// Texts: messages put together from text and numbers, UTF-8, and JSON.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

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

/// A part of a message: text, a whole number, or a number in the shortest form that reads back as
/// itself ("0.01", "1e-07").
class TextPiece {
 public:
  TextPiece(std::string_view text) noexcept : text_(text.data()), size_(text.size()) {}
  TextPiece(const char* text) noexcept : TextPiece(std::string_view(text)) {}
  TextPiece(const std::string& text) noexcept : TextPiece(std::string_view(text)) {}
  template <std::integral N>
    requires(!std::same_as<N, bool> && !std::same_as<N, char>)
  TextPiece(N number) noexcept {
    if constexpr (std::signed_integral<N>)
      write(static_cast<std::int64_t>(number));
    else
      write(static_cast<std::uint64_t>(number));
  }
  TextPiece(double number) noexcept { write(number); }
  TextPiece(const TextPiece&) = delete;
  TextPiece& operator=(const TextPiece&) = delete;

  [[nodiscard]] std::string_view view() const noexcept { return {text_, size_}; }

 private:
  [[gnu::cold]] void write(std::int64_t number) noexcept;
  [[gnu::cold]] void write(std::uint64_t number) noexcept;
  [[gnu::cold]] void write(double number) noexcept;

  const char* text_;
  std::size_t size_;
  char digits_[32];
};

/// `concat({"expected ", 3, " bytes, got ", size})`. Kept out of line: messages are many and rarely
/// made, and chains of `+` and std::to_string are slow to compile.
[[nodiscard, gnu::cold]] std::string concat(std::initializer_list<TextPiece> pieces);

/// The shortest text that reads back as `value`: "0.01", "1e-07", "nan".
[[nodiscard]] std::string number_text(double value);

/// f, e and g of printf.
enum class NumberForm : std::uint8_t { fixed, scientific, general };

/// A number as printf writes it in the locale "C", with `digits` digits behind the point (of
/// `general`, in all); below 0: as many as it takes to read it back. All numbers in messages,
/// logs and names of files are written here: printf and streams follow the program's locale, which
/// may have another point.
[[nodiscard]] std::string number_text(double value, NumberForm form, int digits = -1);

/// The last `digits` hexadecimal digits of a number: "0000e9b6".
[[nodiscard]] std::string hex_text(std::uint64_t number, std::size_t digits);

/// Makes foreign text (of a file, a peer, a command line) fit for a message: what is no character
/// that can be seen (control characters, marks of direction, bytes that are no UTF-8) becomes '?',
/// and the text is cut after `most` bytes.
[[nodiscard, gnu::cold]] std::string printable(std::string_view text, std::size_t most = 300);

/// The same in quotes: "'text'".
[[nodiscard, gnu::cold]] std::string in_quotes(std::string_view text, std::size_t most = 300);

/// A shape: "(28, 28, 1)".
[[nodiscard]] std::string shape_text(std::span<const std::size_t> extents);

/// Makes a whole message fit, whatever it was put together of, as every Error and log line does:
/// the same, but it may have several lines, and is cut after 16 KiB.
[[nodiscard, gnu::cold]] std::string printable_message(std::string_view text);

namespace detail {

/// A text in JSON's quotes (RFC 8259).
[[nodiscard, gnu::cold]] std::string json_text(std::string_view text);

/// A number as Python prints it: the fewest digits that read back as itself ("0.1", "2.0",
/// "1e-07"), "nan", "inf", "-inf". The first three are JSON, too.
[[nodiscard, gnu::cold]] std::string python_number(double number);

/// The same in JSON, which has null for what is no finite number.
[[nodiscard, gnu::cold]] std::string json_number(double number);

}  // namespace detail

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/core/text.ipp"
#endif
