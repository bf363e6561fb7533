// Messages put together from text and numbers.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

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

/// Makes a text from a peer fit for a log: control characters become '?', and the text is cut after
/// `most` bytes.
[[nodiscard, gnu::cold]] std::string printable(std::string_view text, std::size_t most);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/core/text.ipp"
#endif
