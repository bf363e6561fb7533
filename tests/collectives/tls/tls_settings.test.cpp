#include "lockstep/collectives/tls/tls_settings.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/error.hpp"

using namespace lockstep;
using lockstep::detail::TlsIdentity;
using lockstep::detail::TlsSettings;

namespace {

/// Sets a variable for a part of a test.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;
  ~EnvironmentVariable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

std::string refusal(const CommunicationOptions& options) {
  try {
    (void)TlsSettings::chosen(options, 3);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("tls settings") {
  TEST_CASE("options or environment, and not two different wishes") {
    CHECK(TlsSettings::chosen({}, 0).tls == Tls::off);
    CHECK(TlsSettings::chosen({.tls = Tls::pre_shared_key}, 0).tls == Tls::pre_shared_key);
    const EnvironmentVariable variable("LOCKSTEP_TLS", "pre_shared_key");
    CHECK(TlsSettings::chosen({}, 0).tls == Tls::pre_shared_key);
    CHECK(TlsSettings::chosen({.tls = Tls::pre_shared_key}, 0).tls == Tls::pre_shared_key);
    CHECK(refusal({.tls = Tls::certificates}) ==
          "CommunicationOptions::tls is certificates, and LOCKSTEP_TLS is pre_shared_key; unset "
          "the variable, or make them equal");
    for (const char* text : {"", "on", "PRE_SHARED_KEY"}) {
      ::setenv("LOCKSTEP_TLS", text, 1);
      CHECK(refusal({}) == "LOCKSTEP_TLS must be off, pre_shared_key or certificates, got '" +
                               std::string(text) + "'");
    }
    ::setenv("LOCKSTEP_TLS", "off", 1);
    CHECK(refusal({.tls = Tls::pre_shared_key}).find("and LOCKSTEP_TLS is off") !=
          std::string::npos);
  }

  TEST_CASE("files: each is named, by the option or its variable, and the rank has its place") {
    CommunicationOptions options{.tls = Tls::certificates};
    options.tls_files.authority = "ca.pem";
    options.tls_files.key = "keys/{rank}/{rank}.key";
    CHECK(refusal(options) ==
          "TLS by certificates needs a file that CommunicationOptions::tls_files.certificate or "
          "LOCKSTEP_TLS_CERTIFICATE names");
    const EnvironmentVariable certificate("LOCKSTEP_TLS_CERTIFICATE", "rank-{rank}.pem");
    const EnvironmentVariable key("LOCKSTEP_TLS_KEY", "not used");
    const TlsSettings settings = TlsSettings::chosen(options, 3);
    CHECK(settings.files.authority == "ca.pem");
    CHECK(settings.files.certificate == "rank-3.pem");
    CHECK(settings.files.key == "keys/3/3.key");
  }

  TEST_CASE("parameter servers: files by task, and sentences that name their options") {
    const auto server = detail::TlsIdentity::parameter_server(2);
    const auto refusal_of_server = [&](Tls tls, const TlsFiles& files) -> std::string {
      try {
        (void)TlsSettings::chosen_with_servers(tls, files, server);
      } catch (const ConfigurationError& error) {
        return error.what();
      }
      return "accepted";
    };
    const TlsFiles files{
        .authority = "ca.pem", .certificate = "{task}.pem", .key = "{task}/{task}.key"};
    const auto settings = TlsSettings::chosen_with_servers(Tls::certificates, files, server);
    CHECK(settings.files.certificate == "ps-2.pem");
    CHECK(settings.files.key == "ps-2/ps-2.key");
    CHECK(TlsSettings::chosen({.tls = Tls::certificates, .tls_files = files}, 1).files.key ==
          "rank-1/rank-1.key");
    TlsFiles by_rank = files;
    by_rank.certificate = "rank-{rank}.pem";
    CHECK(refusal_of_server(Tls::certificates, by_rank) ==
          "TLS: the name of the file 'rank-{rank}.pem' (ParameterServerOptions::tls_files."
          "certificate or LOCKSTEP_TLS_CERTIFICATE) has {rank}, and a parameter server has none; "
          "write {task}, which stands for rank-0 on worker 0 and for ps-2 on this server");
    CHECK(TlsSettings::chosen_with_servers(Tls::certificates, by_rank, 1).files.certificate ==
          "rank-1.pem");
    CHECK(refusal_of_server(Tls::off, files)
              .find("; set ParameterServerOptions::tls to Tls::certificates") != std::string::npos);
    const EnvironmentVariable variable("LOCKSTEP_TLS", "pre_shared_key");
    CHECK(refusal_of_server(Tls::certificates, files)
              .find("ParameterServerOptions::tls is certificates, and LOCKSTEP_TLS is "
                    "pre_shared_key") == 0);
  }

  TEST_CASE("files that are named in vain are a mistake, not a plain connection") {
    CHECK(refusal({.tls_files = {.certificate = "a.pem"}}).find("which is off; set ") !=
          std::string::npos);
    const EnvironmentVariable certificate("LOCKSTEP_TLS_CERTIFICATE", "a.pem");
    CHECK(refusal({}).find("or LOCKSTEP_TLS to certificates") != std::string::npos);
    CHECK(refusal({.tls = Tls::pre_shared_key}).find("which is not what is chosen") !=
          std::string::npos);
    const EnvironmentVariable off("LOCKSTEP_TLS", "off");  // for a run without, in the same shell
    CHECK(refusal({}) == "accepted");
  }

#if !defined(LOCKSTEP_HAS_OPENSSL) || !LOCKSTEP_HAS_OPENSSL
  TEST_CASE("a program without OpenSSL refuses") {
    CHECK(detail::TlsContext::make({}, {}, 0) == nullptr);
    CHECK_THROWS_AS((void)detail::TlsContext::make({.tls = Tls::pre_shared_key}, {}, 0),
                    ConfigurationError);
  }
#endif
}

TEST_CASE("tls identity: a rank is a worker's; a server has names of its own") {
  const TlsIdentity worker = 3, server = TlsIdentity::parameter_server(3);
  CHECK_FALSE(worker.is_server());
  CHECK(worker.label() == "rank-3");
  CHECK(worker.dns_name() == "rank-3.lockstep");
  CHECK(worker.number() == "3");
  CHECK(worker.kind() == std::string("worker"));
  CHECK(server.is_server());
  CHECK(server.label() == "ps-3");
  CHECK(server.dns_name() == "ps-3.lockstep");
  CHECK(server.kind() == std::string("parameter server"));
}
