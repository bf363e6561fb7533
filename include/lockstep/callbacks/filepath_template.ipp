#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "lockstep/callbacks/filepath_template.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// How many digits a text begins with.
LOCKSTEP_INLINE std::size_t leading_digits(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

/// What printf makes of a number; `flags` come from a template that was checked.
template <class N>
std::string print_number(const std::string& flags, const char* conversion, N number) {
  const std::string format = "%" + flags + conversion;
  // (widths have three digits; the largest double 309 before the point)
  std::string text(1500, '\0');
  const int size = std::snprintf(text.data(), text.size(), format.c_str(), number);
  text.resize(static_cast<std::size_t>(size));
  return text;
}

}  // namespace detail

LOCKSTEP_INLINE FilepathTemplate::FilepathTemplate(std::string_view text)
    : text_(text), pieces_(1) {
  const auto refuse = [&](std::string_view why) {
    throw ConfigurationError(concat({"filepath '", text_, "': ", why,
                                     "; expected for example 'run/{epoch:02d}-{val_loss:.2f}'"}));
  };
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if ((c == '{' || c == '}') && text.starts_with(c)) {
      pieces_.back().text += c;
      text.remove_prefix(1);
    } else if (c == '}') {
      refuse("a '}' without a '{'");
    } else if (c == '{') {
      const std::size_t end = text.find('}');
      if (end == std::string_view::npos) refuse("a '{' without a '}'");
      const std::string_view field = text.substr(0, end), name = field.substr(0, field.find(':'));
      std::string_view form = field.substr(std::min(name.size() + 1, field.size()));
      text.remove_prefix(end + 1);
      const std::size_t width = detail::leading_digits(form);
      const std::size_t precision = form.substr(width).starts_with('.')
                                        ? 1 + detail::leading_digits(form.substr(width + 1))
                                        : 0;
      pieces_.back().field = name;
      pieces_.back().flags = form.substr(0, width + precision);
      form.remove_prefix(width + precision);
      if (!form.empty()) pieces_.back().conversion = form.front();
      constexpr std::string_view conversions = "defg";
      if (name.empty() || form.size() > 1 || width > 3 || precision == 1 || precision > 3 ||
          (!form.empty() && conversions.find(form.front()) == std::string_view::npos) ||
          (form.empty() && width + precision > 0))
        refuse(concat({"cannot understand '{", field, "}'"}));
      pieces_.emplace_back();
    } else {
      pieces_.back().text += c;
    }
  }
}

LOCKSTEP_INLINE std::string FilepathTemplate::format(std::int64_t epoch,
                                                     std::optional<std::int64_t> batch,
                                                     const Logs& logs) const {
  std::string path;
  for (const Piece& piece : pieces_) {
    path += piece.text;
    if (piece.field.empty()) continue;
    const auto refuse = [&](std::string_view why) {
      throw ConfigurationError(concat({"filepath '", text_, "': '", piece.field, "' ", why}));
    };
    std::optional<std::int64_t> whole;
    if (piece.field == "epoch") whole = epoch + 1;
    if (piece.field == "batch" && batch) whole = *batch + 1;
    if (whole && (piece.conversion == 0 || piece.conversion == 'd')) {
      if (piece.flags.find('.') != std::string::npos)
        refuse("is a whole number and has no precision");
      path += detail::print_number(piece.flags, "lld", static_cast<long long>(*whole));
      continue;
    }
    if (!whole && !logs.contains(piece.field)) {
      std::string available = batch ? "epoch, batch" : "epoch";
      for (const auto& [name, value] : logs) available += ", " + name;
      refuse("is not there; available: " + available);
    }
    const double value = whole ? static_cast<double>(*whole) : logs.at(piece.field);
    if (piece.conversion == 'd') refuse("is no whole number: use e, f or g in place of d");
    path +=
        piece.conversion == 0
            ? concat({value})
            : detail::print_number(piece.flags, std::string(1, piece.conversion).c_str(), value);
  }
  return path;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
