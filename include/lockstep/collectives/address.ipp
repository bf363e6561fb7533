#pragma once

#include "lockstep/collectives/address.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

LOCKSTEP_INLINE Address parse_address(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return ConfigurationError(
        concat({"address '", text, "' ", why,
                "; expected host:port, as in 10.0.0.1:2222, worker-0.example:2222 or [::1]:2222"}));
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.find("://") != std::string_view::npos) throw refuse("has a scheme");

  Address address;
  std::string_view port;
  if (!text.empty() && text.front() == '[') {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) throw refuse("has no closing bracket");
    address.host = text.substr(1, bracket - 1);
    if (text.size() == bracket + 1 || text[bracket + 1] != ':') throw refuse("has no port");
    port = text.substr(bracket + 2);
    if (address.host.find(':') == std::string::npos)
      throw refuse("has something other than an IPv6 address in brackets");
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) throw refuse("has no port");
    address.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (address.host.find(':') != std::string::npos)
      throw refuse("has several colons (an IPv6 address needs brackets)");
  }

  if (address.host.empty()) throw refuse("has no host");
  for (const char c : address.host) {
    const bool allowed = is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         c == '-' || c == '.' || c == '_' || c == ':' || c == '%';
    if (!allowed) throw refuse("has a character that no host name may have");
  }
  if (port.empty()) throw refuse("has no port");
  unsigned value = 0;
  for (const char c : port) {
    if (!is_digit(c)) throw refuse("has a port that is no number");
    value = value * 10 + static_cast<unsigned>(c - '0');
    if (value > 65535) throw refuse("has a port above 65535");
  }
  if (value == 0) throw refuse("has port 0");
  address.port = static_cast<std::uint16_t>(value);
  return address;
}

LOCKSTEP_INLINE bool is_address(std::string_view text) {
  try {
    (void)parse_address(text);
    return true;
  } catch (const ConfigurationError&) {
    return false;
  }
}

}}  // namespace lockstep
