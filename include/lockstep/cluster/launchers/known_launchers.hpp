// What the environment variables of launchers say about this process's place, and which counts.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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
  bool is_alone = false;    ///< one process is the whole world: it needs nothing besides
};

/// A launcher, and how its variables are read. Nothing is claimed where none of them is set.
struct LauncherVariables {
  const char* name;
  /// It places machines, on which another launcher may start processes: their places differ.
  bool may_start_launchers;
  std::optional<LauncherClaim> (*read)(const Environment& environment);
};

/// "RANK=1, WORLD_SIZE=4": those that are set.
[[nodiscard, gnu::cold]] std::string settings_text(const Environment& environment,
                                                   std::initializer_list<const char*> names);

/// The names of those that are not set, or empty: "WORLD_SIZE, MASTER_PORT".
[[nodiscard, gnu::cold]] std::string unset_text(const Environment& environment,
                                                std::initializer_list<const char*> names);

[[nodiscard]] std::string text_of(const Environment& environment, const char* name);

/// Throws ConfigurationError, naming the variable and its value, unless that is a whole number from
/// `least` to `most`.
[[nodiscard, gnu::cold]] int number_of(const Environment& environment, const char* name, int least,
                                       int most);

/// Whether the variable of the size says 1, and that of the rank 0 or nothing.
[[nodiscard]] inline bool is_world_of_one(const Environment& environment, const char* rank,
                                          const char* size) {
  const std::string given = text_of(environment, rank);
  return text_of(environment, size) == "1" && (given.empty() || given == "0");
}

inline constexpr int most_ranks = 65'536;

/// Reads rank and size, which must both be set.
[[gnu::cold]] void read_place(const Environment& environment, const char* rank, const char* size,
                              LauncherClaim& claim);

/// The name or the address of a host. Throws ConfigurationError, naming the variable and its value,
/// when that has a port or a scheme.
[[nodiscard, gnu::cold]] std::string host_of(const Environment& environment, const char* name);

/// "host:port"; an IPv6 address gets its brackets.
[[nodiscard]] std::string address_text(std::string_view host, int port);

/// A port for the meeting of a job to which its launcher gives none: the first of eight below those
/// that the system hands out. (FNV-1a.)
[[nodiscard]] int port_of_job(std::string_view job) noexcept;

/// A place, and the launcher that names it.
struct NamedClaim {
  std::string name;
  LauncherClaim claim;
  bool may_start_launchers = false;

  [[nodiscard]] std::string text() const { return concat({name, " (", claim.variables, ")"}); }
};

/// `taken`, or else the first place that a launcher names; none where no launcher has set a
/// variable. Throws ConfigurationError when another launcher contradicts it, and when the
/// variables of all that have set one are incomplete.
[[nodiscard]] std::optional<NamedClaim> claim_of_launchers(const Environment& environment,
                                                           std::optional<NamedClaim> taken);

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/cluster/launchers/known_launchers.ipp"
#endif
