// The name of a type, for messages.
#pragma once

#include <cstddef>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What the compiler writes for T: "my::SaveImages", "main()::StopNow".
template <class T>
[[nodiscard]] constexpr std::string_view full_type_name() {
  // g++: "... [with T = int; ...]", clang: "... [T = int]"
  constexpr std::string_view function = __PRETTY_FUNCTION__;
  constexpr std::size_t begin = function.find("T = ") + 4;
  constexpr std::size_t semicolon = function.find(';', begin);
  return function.substr(
      begin, (semicolon != std::string_view::npos ? semicolon : function.rfind(']')) - begin);
}

/// Whether T is one of this library's types.
template <class T>
inline constexpr bool is_own_type = full_type_name<T>().starts_with("lockstep::");

/// The name without what encloses the type: "SaveImages".
template <class T>
[[nodiscard]] constexpr std::string_view type_name() {
  constexpr std::string_view full = full_type_name<T>();
  std::size_t begin = 0;
  int depth = 0;  // of template arguments
  for (std::size_t i = 0; i + 1 < full.size(); ++i) {
    depth += full[i] == '<' ? 1 : full[i] == '>' ? -1 : 0;
    if (depth == 0 && full[i] == ':' && full[i + 1] == ':') begin = i + 2;
  }
  return full.substr(begin);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
