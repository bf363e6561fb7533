#include "lockstep/cluster/launchers/node_list.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lockstep/core/error.hpp"

using lockstep::ConfigurationError;
using lockstep::detail::SlurmList;
using Names = std::vector<std::string>;

TEST_SUITE("node_list") {
  TEST_CASE("nodes: ranges in brackets, with the zeros in front; several brackets multiply") {
    const auto nodes = [](const char* text) { return SlurmList::nodes("L", text); };
    CHECK(nodes("login-1") == Names{"login-1"});
    CHECK(nodes("n[1-2],m5,o[3-4,6,07-09]") ==
          Names{"n1", "n2", "m5", "o3", "o4", "o6", "o07", "o08", "o09"});
    CHECK(nodes("n[098-101].x") == Names{"n098.x", "n099.x", "n100.x", "n101.x"});
    CHECK(nodes("r[1-2]n[3,5]") == Names{"r1n3", "r1n5", "r2n3", "r2n5"});
  }

  TEST_CASE("tasks: repeated counts are written out") {
    CHECK(SlurmList::tasks("L", "3(x2),2,1") == std::vector<int>{3, 3, 2, 1});
    CHECK(SlurmList::tasks("L", "4") == std::vector<int>{4});
  }

  TEST_CASE("as many entries as there may be ranks, and not one more") {
    CHECK(SlurmList::nodes("L", "n[1-65536]").size() == 65'536);
    CHECK_THROWS_WITH_AS((void)SlurmList::nodes("L", "n[1-65536],m"),
                         doctest::Contains("too many nodes"), ConfigurationError);
    CHECK(SlurmList::tasks("L", "1(x65536)").size() == 65'536);
    CHECK_THROWS_WITH_AS((void)SlurmList::tasks("L", "1(x65536),1"),
                         doctest::Contains("too many nodes"), ConfigurationError);
  }

  TEST_CASE("what is no list is refused, with the variable, its value and the reason") {
    for (const char* wrong : {"", ",", "n[", "n]", "n[1-2", "n[2-1]", "n[a]", "n[[1]]",
                              "n[1-99999999]", "a,,b", "n[]", "n[1-65536]m[1-65536]"}) {
      CAPTURE(wrong);
      CHECK_THROWS_WITH_AS((void)SlurmList::nodes("L", wrong),
                           doctest::Contains("environment variable L='"), ConfigurationError);
    }
    for (const char* wrong : {"", "x", "3(x", "3(x2", "3(2)", "1(x9999999)"}) {
      CAPTURE(wrong);
      CHECK_THROWS_WITH_AS((void)SlurmList::tasks("L", wrong),
                           doctest::Contains("environment variable L='"), ConfigurationError);
    }
    CHECK_THROWS_WITH_AS(
        (void)SlurmList::nodes("SLURM_JOB_NODELIST", "n[4-2]"),
        "the environment variable SLURM_JOB_NODELIST='n[4-2]' is no list of Slurm: the range '4-2' "
        "runs backwards",
        ConfigurationError);
  }
}
