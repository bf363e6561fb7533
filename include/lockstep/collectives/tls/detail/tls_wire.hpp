// What a TLS session reads from and writes to.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/core/config.hpp"

struct bio_method_st;  // OpenSSL's BIO_METHOD

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The socket of a session, as it is now.
struct TlsWire {
  int socket;
  int error = 0;       ///< errno of the last call that failed
  bool ended = false;  ///< the peer has closed the connection
  bool heard = false;  ///< something has come
  bool plain = false;  ///< what came first is no TLS
  /// Records wait in `out` for each other, to leave in one call.
  bool corked = false;
  std::vector<char> out{};
  std::size_t sent = 0;  ///< bytes of `out`

  /// Sends `out`. False where some of it has to wait, and where the connection is broken.
  bool flush();
};

/// How OpenSSL reads and writes a TlsWire. Null without OpenSSL.
[[nodiscard]] const bio_method_st* tls_wire_method();

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/tls/detail/tls_wire.ipp"
#endif
