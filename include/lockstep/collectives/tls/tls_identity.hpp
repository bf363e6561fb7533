// For which task of a cluster a certificate is.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

/// For which worker of the configured cluster a rank's certificate is: see Rendezvous::workers. A
/// rank that a stranger has made up stays what it is.
[[nodiscard]] inline int worker_of(const std::vector<int>& workers, int rank) {
  const auto place = static_cast<std::size_t>(rank);
  return place < workers.size() ? workers[place] : rank;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
