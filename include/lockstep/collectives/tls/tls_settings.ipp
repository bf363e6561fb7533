#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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
                                     const char* variable, const TlsSettings& settings,
                                     const TlsIdentity& own) {
  const char* const text = std::getenv(variable);
  std::string name = !given.empty() ? given : text != nullptr ? text : "";
  if (name.empty())
    throw ConfigurationError(concat({"TLS by certificates needs a file that ", settings.options(),
                                     "::tls_files.", option, " or ", variable, " names"}));
  const auto put = [&](std::string_view place, const std::string& value) {
    for (auto at = name.find(place); at != std::string::npos; at = name.find(place))
      name.replace(at, place.size(), value);
  };
  constexpr std::string_view rank = "{rank}";
  if (own.is_server() && name.find(rank) != std::string::npos)
    throw ConfigurationError(concat(
        {"TLS: the name of the file '", printable(name, 500), "' (", settings.options(),
         "::tls_files.", option, " or ", variable,
         ") has {rank}, and a parameter server has none; write {task}, which stands for rank-0 on "
         "worker 0 and for ",
         own.label(), " on this server"}));
  put(rank, own.number());
  put("{task}", own.label());
  return name;
}

/// See TlsSettings::chosen.
LOCKSTEP_INLINE TlsSettings chosen_tls(TlsSettings settings, const TlsFiles& given,
                                       const TlsIdentity& own) {
  const std::optional<Tls> said = tls_of_environment();
  if (said && settings.tls != Tls::off && *said != settings.tls)
    throw ConfigurationError(
        concat({settings.options(), "::tls is ", to_string(settings.tls), ", and LOCKSTEP_TLS is ",
                to_string(*said), "; unset the variable, or make them equal"}));
  settings.tls = said.value_or(settings.tls);
  if (settings.tls == Tls::certificates) {
    const auto file = [&](const std::string& name, const char* option, const char* variable) {
      return tls_file(name, option, variable, settings, own);
    };
    settings.files.authority = file(given.authority, "authority", "LOCKSTEP_TLS_AUTHORITY");
    settings.files.certificate = file(given.certificate, "certificate", "LOCKSTEP_TLS_CERTIFICATE");
    settings.files.key = file(given.key, "key", "LOCKSTEP_TLS_KEY");
    return settings;
  }
  const bool are_given =
      !given.authority.empty() || !given.certificate.empty() || !given.key.empty();
  const bool are_named = !said && (std::getenv("LOCKSTEP_TLS_AUTHORITY") != nullptr ||
                                   std::getenv("LOCKSTEP_TLS_CERTIFICATE") != nullptr ||
                                   std::getenv("LOCKSTEP_TLS_KEY") != nullptr);
  if (are_given || are_named)
    throw ConfigurationError(concat(
        {are_given ? settings.options() : "",
         are_given ? "::tls_files names files"
                   : "LOCKSTEP_TLS_AUTHORITY, LOCKSTEP_TLS_CERTIFICATE or LOCKSTEP_TLS_KEY "
                     "names a file",
         " for TLS by certificates, which is ",
         settings.tls == Tls::off ? "off" : "not what is chosen", "; set ", settings.options(),
         "::tls to Tls::certificates, or LOCKSTEP_TLS to certificates"}));
  return settings;
}

LOCKSTEP_INLINE TlsSettings TlsSettings::chosen(const CommunicationOptions& options,
                                                TlsIdentity own) {
  return chosen_tls({.tls = options.tls}, options.tls_files, own);
}

LOCKSTEP_INLINE TlsSettings TlsSettings::chosen_with_servers(Tls tls, const TlsFiles& files,
                                                             TlsIdentity own) {
  return chosen_tls({.tls = tls, .with_servers = true}, files, own);
}

}}}  // namespace lockstep::detail
