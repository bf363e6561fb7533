#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What LOCKSTEP_TLS says, if it is set.
LOCKSTEP_INLINE std::optional<Tls> tls_of_environment() {
  const char* const text = std::getenv("LOCKSTEP_TLS");
  if (text == nullptr) return std::nullopt;
  for (const Tls each : {Tls::off, Tls::pre_shared_key, Tls::certificates})
    if (std::string_view(text) == to_string(each)) return each;
  throw ConfigurationError(
      concat({"LOCKSTEP_TLS must be off, pre_shared_key or certificates, got '",
              printable(text, 100), "'"}));
}

/// The name of one of the three files.
LOCKSTEP_INLINE std::string tls_file(const std::string& given, const char* option,
                                     const char* variable, int rank) {
  const char* const text = std::getenv(variable);
  std::string name = !given.empty() ? given : text != nullptr ? text : "";
  if (name.empty())
    throw ConfigurationError(
        concat({"TLS by certificates needs a file that CommunicationOptions::tls_files.", option,
                " or ", variable, " names"}));
  constexpr std::string_view place = "{rank}";
  for (auto at = name.find(place); at != std::string::npos; at = name.find(place))
    name.replace(at, place.size(), concat({rank}));
  return name;
}

LOCKSTEP_INLINE TlsSettings TlsSettings::chosen(const CommunicationOptions& options, int rank) {
  const std::optional<Tls> said = tls_of_environment();
  if (said && options.tls != Tls::off && *said != options.tls)
    throw ConfigurationError(
        concat({"CommunicationOptions::tls is ", to_string(options.tls), ", and LOCKSTEP_TLS is ",
                to_string(*said), "; unset the variable, or make them equal"}));
  TlsSettings settings{.tls = said.value_or(options.tls)};
  const TlsFiles& given = options.tls_files;
  if (settings.tls == Tls::certificates) {
    settings.files.authority =
        tls_file(given.authority, "authority", "LOCKSTEP_TLS_AUTHORITY", rank);
    settings.files.certificate =
        tls_file(given.certificate, "certificate", "LOCKSTEP_TLS_CERTIFICATE", rank);
    settings.files.key = tls_file(given.key, "key", "LOCKSTEP_TLS_KEY", rank);
    return settings;
  }
  const bool are_given =
      !given.authority.empty() || !given.certificate.empty() || !given.key.empty();
  const bool are_named = !said && (std::getenv("LOCKSTEP_TLS_AUTHORITY") != nullptr ||
                                   std::getenv("LOCKSTEP_TLS_CERTIFICATE") != nullptr ||
                                   std::getenv("LOCKSTEP_TLS_KEY") != nullptr);
  if (are_given || are_named)
    throw ConfigurationError(
        concat({are_given ? "CommunicationOptions::tls_files names files"
                          : "LOCKSTEP_TLS_AUTHORITY, LOCKSTEP_TLS_CERTIFICATE or LOCKSTEP_TLS_KEY "
                            "names a file",
                " for TLS by certificates, which is ",
                settings.tls == Tls::off ? "off" : "not what is chosen",
                "; set CommunicationOptions::tls to Tls::certificates, or LOCKSTEP_TLS to "
                "certificates"}));
  return settings;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
