// "host:port".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Where a worker listens. The host is a DNS name or an IP address without brackets.
struct Address {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

/// Reads "name:2222", "10.0.0.1:2222" or "[::1]:2222". A name may end with a dot. Throws
/// ConfigurationError, which names the text and what is wrong with it.
[[nodiscard, gnu::cold]] Address parse_address(std::string_view text);
/// Whether parse_address takes it.
[[nodiscard, gnu::cold]] bool is_address(std::string_view text);
/// The reverse: an IPv6 address gets its brackets.
[[nodiscard]] inline std::string to_string(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return concat({is_ipv6 ? "[" : "", address.host, is_ipv6 ? "]" : "", ":", address.port});
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/address.ipp"
#endif
