// Which TLS the connections of a process have, by its options and its environment.
#pragma once

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/tls/tls_identity.hpp"
#include "lockstep/collectives/tls_options.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

struct TlsSettings {
  Tls tls = Tls::off;
  TlsFiles files{};  ///< all three named, for Tls::certificates
  /// Of connections between workers and parameter servers, by ParameterServerOptions.
  bool with_servers = false;

  /// What the options say, or else the environment. Throws ConfigurationError when a variable has
  /// no meaning, when the two contradict each other, and when a file is not named or one is named
  /// in vain: a mistake must not leave the connections open to all.
  [[nodiscard]] static TlsSettings chosen(const CommunicationOptions& options, TlsIdentity own);
  /// The same for connections with parameter servers.
  [[nodiscard]] static TlsSettings chosen_with_servers(Tls tls, const TlsFiles& files,
                                                       TlsIdentity own);

  /// "CommunicationOptions"
  [[nodiscard]] const char* options() const noexcept {
    return with_servers ? "ParameterServerOptions" : "CommunicationOptions";
  }
  /// What two sides that do not understand each other must do, as the end of a sentence.
  [[nodiscard]] const char* remedy() const noexcept {
    return with_servers ? "; LOCKSTEP_TLS (or ParameterServerOptions::tls) must be the same in all "
                          "processes"
                        : "; LOCKSTEP_TLS (or CommunicationOptions::tls) must be the same on all "
                          "workers";
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/tls/tls_settings.ipp"
#endif
