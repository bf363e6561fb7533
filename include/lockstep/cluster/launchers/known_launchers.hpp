// The launchers whose environment variables are read, and the place that counts.
#pragma once

#include <optional>
#include <string>

#include "lockstep/cluster/launchers/claim.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/cluster/launchers/known_launchers.ipp"
#endif
