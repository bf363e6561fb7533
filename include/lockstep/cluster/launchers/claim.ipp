#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::string settings_text(const Environment& environment,
                                          std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names)
    if (const char* value = environment(name); value != nullptr)
      text += concat({text.empty() ? "" : ", ", name, "=", printable(value, 200)});
  return text;
}

LOCKSTEP_INLINE std::string unset_text(const Environment& environment,
                                       std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names)
    if (const char* value = environment(name); value == nullptr || *value == '\0')
      text += concat({text.empty() ? "" : ", ", name});
  return text;
}

LOCKSTEP_INLINE std::string text_of(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

LOCKSTEP_INLINE int number_of(const Environment& environment, const char* name, int least,
                              int most) {
  const std::string text = text_of(environment, name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw ConfigurationError(
        concat({"the environment variable ", name, " must be a whole number from ", least, " to ",
                most, ", got '", printable(text, 60), "'"}));
  return value;
}

LOCKSTEP_INLINE void read_place(const Environment& environment, const char* rank, const char* size,
                                LauncherClaim& claim) {
  claim.size = number_of(environment, size, 1, most_ranks);
  claim.rank = number_of(environment, rank, 0, most_ranks - 1);
  if (claim.rank >= claim.size)
    throw ConfigurationError(
        concat({"the environment variables contradict each other: ", rank, "=", claim.rank,
                " must be below ", size, "=", claim.size, "; ranks are 0 to ", claim.size - 1}));
}

LOCKSTEP_INLINE std::string host_of(const Environment& environment, const char* name) {
  std::string text = text_of(environment, name);
  const bool has_port = std::ranges::count(text, ':') == 1 || text.find("]:") != std::string::npos;
  if (has_port || text.find("//") != std::string::npos)
    throw ConfigurationError(concat({"the environment variable ", name,
                                     " must be a host alone, without scheme and port, got '",
                                     printable(text, 100), "'"}));
  return text;
}

LOCKSTEP_INLINE std::string address_text(std::string_view host, int port) {
  const bool bare = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return concat({bare ? "[" : "", host, bare ? "]" : "", ":", port});
}

LOCKSTEP_INLINE int port_of_job(std::string_view job) noexcept {
  std::uint32_t hash = 2'166'136'261U;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return 10'240 + static_cast<int>(hash % 2'500) * 8;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
