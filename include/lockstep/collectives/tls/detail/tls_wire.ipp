#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/collectives/tls/detail/tls_wire.hpp"
#include "lockstep/core/error.hpp"

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
#include <openssl/bio.h>
#endif

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE bool TlsWire::flush() {
  while (sent < out.size()) {
    const ssize_t n = ::send(socket, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (n >= 0)
      sent += static_cast<std::size_t>(n);
    else if (errno != EINTR) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) error = errno;
      return false;
    }
  }
  out.clear();
  sent = 0;
  return true;
}

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

// OpenSSL's own BIO for sockets would raise SIGPIPE.

LOCKSTEP_INLINE int read_tls_wire(BIO* bio, char* bytes, int size) {
  auto& wire = *static_cast<TlsWire*>(::BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  ssize_t n = -1;
  do n = ::recv(wire.socket, bytes, static_cast<std::size_t>(size), 0);
  while (n < 0 && errno == EINTR);
  if (n == 0) wire.ended = true;
  if (n > 0 && !std::exchange(wire.heard, true))
    wire.plain = bytes[0] != first_of_alert && bytes[0] != first_of_handshake;
  if (n >= 0) return static_cast<int>(n);
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    BIO_set_retry_read(bio);
  else
    wire.error = errno;
  return -1;
}

LOCKSTEP_INLINE int write_tls_wire(BIO* bio, const char* bytes, int size) {
  auto& wire = *static_cast<TlsWire*>(::BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (wire.corked || !wire.out.empty()) {
    try {
      wire.out.insert(wire.out.end(), bytes, bytes + size);
      return size;
    } catch (...) {  // out of memory: OpenSSL must not see it
      wire.error = ENOMEM;
      return -1;
    }
  }
  ssize_t n = -1;
  do n = ::send(wire.socket, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  if (n >= 0) return static_cast<int>(n);
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    BIO_set_retry_write(bio);
  else
    wire.error = errno;
  return -1;
}

LOCKSTEP_INLINE long control_tls_wire(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

LOCKSTEP_INLINE const bio_method_st* tls_wire_method() {
  static const std::unique_ptr<BIO_METHOD, void (*)(BIO_METHOD*)> method = [] {
    std::unique_ptr<BIO_METHOD, void (*)(BIO_METHOD*)> made(
        ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket of lockstep"),
        ::BIO_meth_free);
    if (made == nullptr) throw Error("OpenSSL has no memory left");
    ::BIO_meth_set_read(made.get(), read_tls_wire);
    ::BIO_meth_set_write(made.get(), write_tls_wire);
    ::BIO_meth_set_ctrl(made.get(), control_tls_wire);
    return made;
  }();
  return method.get();
}

#else

LOCKSTEP_INLINE const bio_method_st* tls_wire_method() { return nullptr; }

#endif

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
