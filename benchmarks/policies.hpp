// The collectives that are measured, by the names that the programs' --policy has.
#pragma once

#include <string_view>

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/ring.hpp"
#include "lockstep/collectives/tcp.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace benchmarks {

namespace ls = lockstep;

/// Calls f.template operator()<Policy>(options) for the policy between processes, and the ls::CommunicationOptions, of that
/// name. Throws ls::ConfigurationError when there is none.
template <class F>
void with_policy(std::string_view name, const F& f) {
  const ls::CommunicationOptions options;
  if (name == "tcp") return f.template operator()<ls::Ring<ls::Tcp>>(options);
  throw ls::ConfigurationError(ls::concat({"unknown policy: '", name, "'"}));
}

}  // namespace benchmarks
