#include "lockstep/cluster/launchers/known_launchers.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <map>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"

using namespace lockstep::detail;
using lockstep::ConfigurationError;

namespace {

/// Variables that this process need not have.
class Variables {
 public:
  Variables(std::initializer_list<std::pair<const std::string, std::string>> values)
      : values_(values) {}
  const char* operator()(const char* name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : found->second.c_str();
  }

 private:
  std::map<std::string, std::string> values_;
};

LauncherClaim place(const char* rank, const char* size) {
  LauncherClaim claim;
  read_place(Variables{{"R", rank}, {"S", size}}, "R", "S", claim);
  return claim;
}

}  // namespace

TEST_CASE("launcher claim: the settings are those that are set; empty ones count as missing") {
  const Variables some{{"A", "1"}, {"B", ""}, {"C", "x\ny"}};
  CHECK(settings_text(some, {"C", "D", "A", "B"}) == "C=x?y, A=1, B=");
  CHECK(settings_text(some, {"D"}).empty());
  CHECK(unset_text(some, {"A", "B", "D"}) == "B, D");
  CHECK(unset_text(some, {"A", "C"}).empty());
  CHECK(text_of(some, "A") == "1");
  CHECK(text_of(some, "D").empty());
}

TEST_CASE("launcher claim: a number is whole, has nothing around it, and is within its bounds") {
  CHECK(number_of(Variables{{"A", "5"}}, "A", 5, 9) == 5);
  CHECK(number_of(Variables{{"A", "9"}}, "A", 5, 9) == 9);
  for (const char* wrong : {"", "4", "10", "5.0", " 5", "5 ", "+5", "0x5", "99999999999"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS((void)number_of(Variables{{"A", wrong}}, "A", 5, 9),
                         doctest::Contains("the environment variable A must be a whole number from "
                                           "5 to 9, got '"),
                         ConfigurationError);
  }
  CHECK_THROWS_WITH_AS((void)number_of(Variables{}, "A", 5, 9), doctest::Contains("got ''"),
                       ConfigurationError);
}

TEST_CASE("launcher claim: a rank is below the size") {
  CHECK(place("3", "4").rank == 3);
  CHECK(place("3", "4").size == 4);
  CHECK(place("65535", "65536").rank == 65'535);
  CHECK_THROWS_WITH_AS(
      (void)place("4", "4"),
      "the environment variables contradict each other: R=4 must be below S=4; ranks are 0 to 3",
      ConfigurationError);
  CHECK_THROWS_AS((void)place("0", "0"), ConfigurationError);
  CHECK_THROWS_AS((void)place("-1", "2"), ConfigurationError);
}

TEST_CASE("launcher claim: IPv6 addresses have brackets, once") {
  CHECK(address_text("a", 7) == "a:7");
  CHECK(address_text("10.0.0.1", 65'535) == "10.0.0.1:65535");
  CHECK(address_text("fd00::1", 7) == "[fd00::1]:7");
  CHECK(address_text("[fd00::1]", 7) == "[fd00::1]:7");
}

TEST_CASE("launcher claim: the port of a job is known from its name, on every machine") {
  // FNV-1a's published values: 0x811c9dc5, 0xe40c292c and 0xbf9cf968, modulo 2500.
  CHECK(port_of_job("") == 10'240 + 8 * 1261);
  CHECK(port_of_job("a") == 10'240 + 8 * 2220);
  CHECK(port_of_job("foobar") == 10'240 + 8 * 720);
}
