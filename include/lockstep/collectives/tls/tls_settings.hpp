// Which TLS the connections of a process have, by its options and its environment.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A task whose connections have TLS: a worker, which its rank stands for, or a parameter server.
class TlsIdentity {
 public:
  TlsIdentity(int rank) noexcept : index_(rank) {}
  [[nodiscard]] static TlsIdentity parameter_server(int index) noexcept {
    TlsIdentity server(index);
    server.is_server_ = true;
    return server;
  }

  [[nodiscard]] bool is_server() const noexcept { return is_server_; }
  /// "rank-1", "ps-1": what `{task}` stands for in the names of files.
  [[nodiscard, gnu::cold]] std::string label() const {
    return concat({is_server_ ? "ps-" : "rank-", index_});
  }
  /// The DNS name that its certificate must have.
  [[nodiscard, gnu::cold]] std::string dns_name() const { return label() + ".lockstep"; }
  /// "1": what `{rank}` stands for, if it is a worker's.
  [[nodiscard, gnu::cold]] std::string number() const { return concat({index_}); }
  /// "worker", "parameter server"
  [[nodiscard]] const char* kind() const noexcept {
    return is_server_ ? "parameter server" : "worker";
  }

 private:
  int index_;
  bool is_server_ = false;
};

struct TlsSettings {
  Tls tls = Tls::off;
  TlsFiles files{};  ///< all three named, for Tls::certificates
  /// For connections between workers and parameter servers, by ParameterServerOptions.
  bool with_servers = false;

  /// What the options say, or else the environment. Throws ConfigurationError when a variable has
  /// no meaning, when the two contradict each other, and when a file is missing or one is named
  /// that is not used: a mistake must not leave the connections open to all.
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

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/tls/tls_settings.ipp"
#endif
