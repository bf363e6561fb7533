#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

#include "lockstep/cluster/host_list.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Adds a host, once for each of its workers. `where` names the place for an error.
LOCKSTEP_INLINE void add_host(std::string_view host, std::string_view number,
                              const std::string& where, std::vector<std::string>& hosts) {
  const auto refuse = [&](std::string_view why) {
    return ConfigurationError(concat(
        {where, " ", why, "; expected host, user@host or host:workers, as in a:2 or [fd00::1]:2"}));
  };
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) throw refuse("has no host");
  if (host.front() == '-') throw refuse("begins as an option of ssh does");
  for (const char c : host) {
    const bool allowed = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_' || c == '@' ||
                         c == '%' || (c == ':' && is_bracketed);
    if (!allowed) throw refuse("has a character that no host name may have");
  }
  int workers = 1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), workers);
  if (!number.empty() &&
      (error != std::errc() || end != number.data() + number.size() || workers < 1))
    throw refuse("has no number of workers from 1 on");
  if (static_cast<std::size_t>(workers) + hosts.size() > 1024)
    throw refuse("makes more than 1024 workers");
  hosts.insert(hosts.end(), static_cast<std::size_t>(workers), std::string(host));
}

/// "host:workers" in its parts; the colons of an address in brackets belong to it.
LOCKSTEP_INLINE void add_entry(std::string_view entry, const std::string& where,
                               std::vector<std::string>& hosts) {
  const auto bracket = entry.rfind(']');
  const auto colon = entry.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) return add_host(entry, "", where, hosts);
  const std::string_view number = entry.substr(colon + 1);
  add_host(entry.substr(0, colon), number.empty() ? "none" : number, where, hosts);
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<std::string> parse_hosts(std::string_view text) {
  std::vector<std::string> hosts;
  for (std::size_t begin = 0, end = 0; end != text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = text.substr(begin, end - begin);
    if (entry.empty() && !text.empty())
      throw ConfigurationError(
          concat({"--hosts ", printable(text, 200),
                  ": an entry is empty; write hosts with commas, and without spaces, as in "
                  "--hosts a:2,b:2"}));
    detail::add_entry(
        entry,
        concat({"--hosts ", printable(text, 200), ": the entry '", printable(entry, 100), "'"}),
        hosts);
  }
  if (hosts.empty())
    throw ConfigurationError("--hosts names no host; expected hosts such as a:2,b:2");
  return hosts;
}

LOCKSTEP_INLINE std::vector<std::string> parse_host_file(std::string_view text) {
  std::vector<std::string> hosts;
  int number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const auto trim = [](std::string_view part) {
      const auto first = part.find_first_not_of(" \t\r");
      if (first == std::string_view::npos) return std::string_view();
      return part.substr(first, part.find_last_not_of(" \t\r") - first + 1);
    };
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::string where =
        concat({"line ", number, " of the host file, '", printable(line, 100), "',"});
    const auto space = line.find_first_of(" \t");
    if (space == std::string_view::npos) {
      detail::add_entry(line, where, hosts);
      continue;
    }
    const std::string_view rest = trim(line.substr(space));
    if (!rest.starts_with("slots="))
      throw ConfigurationError(
          concat({where, " has something other than slots=N behind the host"}));
    detail::add_host(line.substr(0, space), rest.size() > 6 ? rest.substr(6) : "none", where,
                     hosts);
  }
  if (hosts.empty())
    throw ConfigurationError("the host file names no host; expected lines such as: a slots=2");
  return hosts;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
