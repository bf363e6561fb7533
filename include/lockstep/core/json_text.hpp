// Texts and numbers in JSON.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// A text in JSON's quotes (RFC 8259).
[[nodiscard, gnu::cold]] inline std::string json_text(std::string_view text) {
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

/// A number as Python prints it: the fewest digits that read back as itself ("0.1", "2.0",
/// "1e-07"), "nan", "inf", "-inf". The first three are JSON, too.
[[nodiscard, gnu::cold]] inline std::string python_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  const double size = std::abs(number);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  std::string text = number_text(number, fixed ? NumberForm::fixed : NumberForm::scientific);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

/// The same in JSON, which has null for what is no finite number.
[[nodiscard, gnu::cold]] inline std::string json_number(double number) {
  return std::isfinite(number) ? python_number(number) : "null";
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
