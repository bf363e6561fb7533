// The socket that a worker listens on: see Tcp.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Takes over a descriptor if it is a socket that listens on `port`.
inline bool adopt_listener(TcpAcceptor& acceptor, int descriptor, std::uint16_t port) {
  if (descriptor < 0) return false;
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0)
    return false;
  sockaddr_storage name{};
  size = sizeof name;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) != 0) return false;
  const bool v6 = name.ss_family == AF_INET6;
  if (!v6 && name.ss_family != AF_INET) return false;
  const auto actual = v6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(name).sin6_port)
                         : ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
  if (actual != port) return false;
  asio::error_code error;
  acceptor.assign(v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), descriptor, error);
  if (error) return false;
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return true;
}

inline asio::error_code open_listener(TcpAcceptor& acceptor,
                                      const asio::ip::tcp::endpoint& endpoint, int backlog) {
  asio::error_code error, ignored;
  acceptor.close(ignored);
  acceptor.open(endpoint.protocol(), error);
  if (error) return error;
  ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  acceptor.set_option(asio::socket_base::reuse_address(true), ignored);
  acceptor.non_blocking(true, ignored);
  if (endpoint.protocol() == asio::ip::tcp::v6() && endpoint.address().is_unspecified())
    acceptor.set_option(asio::ip::v6_only(false), ignored);
  acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(std::max(128, backlog), error);
  return error;
}

/// Where a worker with this address listens; `bind_address` is CommunicationOptions::bind_address.
inline asio::ip::tcp::endpoint listening_endpoint(const Address& own,
                                                  const std::string& bind_address) {
  asio::error_code error;
  if (!bind_address.empty()) {
    const auto chosen = asio::ip::make_address(bind_address, error);
    if (!error) return {chosen, own.port};
    throw ConfigurationError(
        concat({"CommunicationOptions::bind_address must be an IP address of this machine, such as "
                "10.0.0.1 or fd00::1, got '",
                bind_address, "'"}));
  }
  if (own.host == "localhost") return {asio::ip::address_v4::loopback(), own.port};
  const auto numeric = asio::ip::make_address(own.host, error);
  if (!error && numeric.is_loopback()) return {numeric, own.port};
  return {asio::ip::tcp::v6(), own.port};  // IPv4 too
}

/// Listens on the port of `address`: with `descriptor` or the one that LOCKSTEP_LISTEN_FD names, if
/// it fits; else on `bind_address`; without one, on the loopback interface if the address belongs
/// to it, else on all interfaces. Returns what is wrong when another socket has the port, and may
/// give it up. Throws ConfigurationError when anything else is wrong.
[[nodiscard]] inline std::string listen_on_own_port(TcpAcceptor& acceptor,
                                                    const std::string& address, int descriptor,
                                                    const std::string& bind_address, int backlog) {
  const Address own = parse_address(address);
  const auto endpoint = listening_endpoint(own, bind_address);
  if (adopt_listener(acceptor, descriptor, own.port)) return {};
  if (const char* text = std::getenv("LOCKSTEP_LISTEN_FD")) {
    // A copy, so that the port can be listened on again after the loss of a worker.
    const int original = std::atoi(text);
    const int copy = ::fcntl(original, F_DUPFD_CLOEXEC, 0);
    if (adopt_listener(acceptor, copy, own.port)) {
      ::fcntl(original, F_SETFD, FD_CLOEXEC);
      return {};
    }
    if (copy >= 0) ::close(copy);
  }

  asio::error_code error = open_listener(acceptor, endpoint, backlog);
  if (error && error != asio::error::address_in_use && bind_address.empty() &&
      endpoint.address().is_unspecified())
    error = open_listener(acceptor, {asio::ip::tcp::v4(), own.port}, backlog);
  if (!error) return {};
  asio::error_code ignored;
  acceptor.close(ignored);
  std::string problem =
      concat({"cannot listen on port ", own.port, ", which this worker's address ", address,
              " names: ", error.message()});
  if (error == asio::error::address_in_use)
    return problem + "; another program, or another worker with the same task, has it";
  if (!bind_address.empty())
    problem += concat({"; CommunicationOptions::bind_address is ", bind_address,
                       ", which must be an address of one of this machine's interfaces"});
  throw ConfigurationError(problem);
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
