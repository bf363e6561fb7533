#include "lockstep/collectives/address.hpp"

#include <doctest/doctest.h>

#include "lockstep/core/error.hpp"

using namespace lockstep;

TEST_SUITE("address") {
  TEST_CASE("names, IPv4 and IPv6") {
    CHECK(parse_address("worker-0.ns.svc:2222") == Address{"worker-0.ns.svc", 2222});
    CHECK(parse_address("worker-0.ns.svc.:2222") == Address{"worker-0.ns.svc.", 2222});
    CHECK(parse_address("10.0.0.1:1") == Address{"10.0.0.1", 1});
    CHECK(parse_address("[::1]:65535") == Address{"::1", 65535});
    CHECK(parse_address("[fe80::1%eth0]:80") == Address{"fe80::1%eth0", 80});
  }

  TEST_CASE("what is malformed is named, with the reason") {
    const auto reason = [](const char* text) -> std::string {
      try {
        (void)parse_address(text);
      } catch (const ConfigurationError& error) {
        const std::string what = error.what();
        CHECK(what.find("address '" + std::string(text) + "' ") == 0);
        CHECK(what.find("expected host:port") != std::string::npos);
        return what.substr(0, what.find(';')).substr(std::string(text).size() + 11);
      }
      return "accepted";
    };
    CHECK(reason("host") == "has no port");
    CHECK(reason("host:") == "has no port");
    CHECK(reason(":2222") == "has no host");
    CHECK(reason("") == "has no port");
    CHECK(reason("host:0") == "has port 0");
    CHECK(reason("host:70000") == "has a port above 65535");
    CHECK(reason("host:99999999999999999999") == "has a port above 65535");
    CHECK(reason("host:-1") == "has a port that is no number");
    CHECK(reason("host: 22") == "has a port that is no number");
    CHECK(reason("::1:2222") == "has several colons (an IPv6 address needs brackets)");
    CHECK(reason("[::1]") == "has no port");
    CHECK(reason("[::1]2222") == "has no port");
    CHECK(reason("[::1:2222") == "has no closing bracket");
    CHECK(reason("[host]:2222") == "has something other than an IPv6 address in brackets");
    CHECK(reason("grpc://host:2222") == "has a scheme");
    CHECK(reason("my host:2222") == "has a character that no host name may have");
    CHECK(reason("host/path:2222") == "has a character that no host name may have");
  }
}

TEST_CASE("Address: its text is what it was read from") {
  for (const char* const text : {"name:2222", "10.0.0.1:1", "[::1]:65535"})
    CHECK(to_string(parse_address(text)) == text);
}
