// What the environment variables of a launcher say about this process's place.
#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Reads a variable of the environment: nullptr when it is not set.
using Environment = FunctionRef<const char*(const char* name)>;

/// A place that a launcher names.
struct LauncherClaim {
  int rank = 0;
  int size = 0;
  std::string address{};    ///< "host:port", where rank 0 waits for the others; empty: not known
  std::string job{};        ///< tells jobs apart that meet on one machine
  std::string variables{};  ///< "RANK=1, WORLD_SIZE=4"
  std::string missing{};    ///< what there should be besides, as a sentence; empty: the claim holds
};

/// A launcher, and how its variables are read. Nothing is claimed where none of them is set.
struct LauncherVariables {
  const char* name;
  /// It places machines, on which another launcher may start processes: their places differ.
  bool may_start_launchers;
  std::optional<LauncherClaim> (*read)(const Environment& environment);
};

/// "RANK=1, WORLD_SIZE=4": those that are set.
[[nodiscard, gnu::cold]] inline std::string settings_text(
    const Environment& environment, std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names)
    if (const char* value = environment(name); value != nullptr)
      text += concat({text.empty() ? "" : ", ", name, "=", printable(value, 200)});
  return text;
}

/// The names of those that are not set, or empty: "WORLD_SIZE, MASTER_PORT".
[[nodiscard, gnu::cold]] inline std::string unset_text(const Environment& environment,
                                                       std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names)
    if (const char* value = environment(name); value == nullptr || *value == '\0')
      text += concat({text.empty() ? "" : ", ", name});
  return text;
}

[[nodiscard]] inline std::string text_of(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

/// Throws ConfigurationError, naming the variable and its value, unless that is a whole number from
/// `least` to `most`.
[[nodiscard, gnu::cold]] inline int number_of(const Environment& environment, const char* name,
                                              int least, int most) {
  const std::string text = text_of(environment, name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw ConfigurationError(
        concat({"the environment variable ", name, " must be a whole number from ", least, " to ",
                most, ", got '", printable(text, 60), "'"}));
  return value;
}

inline constexpr int most_ranks = 65'536;

/// Reads rank and size, which must both be set.
[[gnu::cold]] inline void read_place(const Environment& environment, const char* rank,
                                     const char* size, LauncherClaim& claim) {
  claim.size = number_of(environment, size, 1, most_ranks);
  claim.rank = number_of(environment, rank, 0, most_ranks - 1);
  if (claim.rank >= claim.size)
    throw ConfigurationError(concat({"the environment variables contradict each other: ", rank, "=",
                                     claim.rank, " must be below ", size, "=", claim.size}));
}

/// "host:port"; an IPv6 address gets its brackets.
[[nodiscard]] inline std::string address_text(std::string_view host, int port) {
  const bool bare = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return concat({bare ? "[" : "", host, bare ? "]" : "", ":", port});
}

/// A port for the meeting of a job to which its launcher gives none: the first of eight below those
/// that the system hands out. (FNV-1a.)
[[nodiscard]] inline int port_of_job(std::string_view job) noexcept {
  std::uint32_t hash = 2'166'136'261U;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return 10'240 + static_cast<int>(hash % 2'500) * 8;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
