#include "lockstep/cluster/launcher.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lockstep/core/error.hpp"

using namespace lockstep;
using Hosts = std::vector<std::string>;

TEST_SUITE("host_list") {
  TEST_CASE("a host for each worker, in this order") {
    CHECK(parse_hosts("a:2,b") == Hosts{"a", "a", "b"});
    CHECK(parse_hosts("me@a.example:1,10.0.0.2:2") ==
          Hosts{"me@a.example", "10.0.0.2", "10.0.0.2"});
    CHECK(parse_hosts("[fd00::1]:2,[fd00::2]") == Hosts{"fd00::1", "fd00::1", "fd00::2"});
    CHECK(parse_host_file("# two machines\na slots=2\n\n  b:1  # the other\r\nc\n") ==
          Hosts{"a", "a", "b", "c"});
    CHECK(parse_host_file("a\nb\na slots=2\n") == Hosts{"a", "b", "a", "a"});
    CHECK(parse_host_file("[fd00::1]\tslots=2") == Hosts{"fd00::1", "fd00::1"});
  }

  TEST_CASE("entries that are none are refused by their text") {
    for (const char* wrong : {"", "a,", ",a", "a:", "a:0", "a:-1", "a:x", "a:2000", "a b", "a;b",
                              "-oProxyCommand=x", "fd00::1", "[]:2", "a:1:2", "$(x)"}) {
      CAPTURE(wrong);
      CHECK_THROWS_WITH_AS((void)parse_hosts(wrong), doctest::Contains(wrong), ConfigurationError);
    }
    for (const char* wrong :
         {"", "# nothing", "a slots=", "a slots=0", "a 2", "a slots=2 max=3", "a\nb:0\n"}) {
      CAPTURE(wrong);
      CHECK_THROWS_AS((void)parse_host_file(wrong), ConfigurationError);
    }
    CHECK_THROWS_WITH_AS((void)parse_hosts("a:2,"), doctest::Contains("without spaces"),
                         ConfigurationError);
    CHECK_THROWS_WITH_AS((void)parse_host_file("a\n\nb:0\n"),
                         doctest::Contains("line 3 of the host file, 'b:0'"), ConfigurationError);
  }
}
