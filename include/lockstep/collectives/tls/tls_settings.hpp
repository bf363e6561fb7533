// Which TLS a worker's connections have, by its options and its environment.
#pragma once

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/tls_options.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

struct TlsSettings {
  Tls tls = Tls::off;
  TlsFiles files{};  ///< all three named, for Tls::certificates

  /// What the options say, or else the environment. Throws ConfigurationError when a variable has
  /// no meaning, when the two contradict each other, and when a file is not named or one is named
  /// in vain: a mistake must not leave the connections open to all.
  [[nodiscard]] static TlsSettings chosen(const CommunicationOptions& options, int rank);
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/collectives/tls/tls_settings.ipp"
#endif
