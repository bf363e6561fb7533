#include "lockstep/collectives/options.hpp"

#include <doctest/doctest.h>

#include <string_view>

using namespace lockstep;
using namespace std::chrono_literals;

TEST_SUITE_BEGIN("Keras: MultiWorkerMirroredStrategy: CommunicationOptions");

TEST_CASE("CommunicationOptions: what makes no sense is named") {
  CHECK_NOTHROW(CommunicationOptions{}.validate());
  CHECK_THROWS_WITH_AS((CommunicationOptions{.timeout = 0s}.validate()),
                       "CommunicationOptions::timeout must be at least 1 ms, got 0 ms",
                       ConfigurationError);
  CHECK_THROWS_WITH_AS((CommunicationOptions{.progress_timeout = 0s}.validate()),
                       "CommunicationOptions::progress_timeout must be at least 1 ms, got 0 ms",
                       ConfigurationError);
  CHECK_THROWS_WITH_AS((CommunicationOptions{.startup_timeout = -1s}.validate()),
                       "CommunicationOptions::startup_timeout must be at least 1 ms, got -1000 ms",
                       ConfigurationError);
}

TEST_CASE(
    "CommunicationOptions: bytes_per_pack 0 is chosen by the library, a negative one is an error") {
  CHECK(CommunicationOptions{}.bytes_per_pack == 0);
  CHECK_NOTHROW((CommunicationOptions{.bytes_per_pack = 1}.validate()));
  CHECK_THROWS_WITH_AS(
      (CommunicationOptions{.bytes_per_pack = -1}.validate()),
      "CommunicationOptions::bytes_per_pack must be 0 (chosen by the library) or more, got -1",
      ConfigurationError);
}

TEST_CASE("CommunicationOptions: nothing waits for ever: timeouts of 30 s, and 5 min to start up") {
  CHECK(CommunicationOptions{}.timeout == 30s);
  CHECK(CommunicationOptions{}.startup_timeout == 5min);
}

TEST_CASE("CommunicationOptions: implementation is automatic, unless it is ring or gather") {
  using enum CommunicationImplementation;
  CHECK(CommunicationOptions{}.implementation == automatic);
  CHECK(std::string_view(to_string(automatic)) == "automatic");
  CHECK(std::string_view(to_string(ring)) == "ring");
  CHECK(std::string_view(to_string(gather)) == "gather");
}

TEST_CASE(
    "CommunicationOptions: a rank that answers is given no less time than one that does not") {
  CHECK(CommunicationOptions{}.progress_limit() == 10min);
  CHECK(CommunicationOptions{.timeout = 15min}.progress_limit() == 15min);
  CHECK(CommunicationOptions{.timeout = 1s, .progress_timeout = 2s}.progress_limit() == 2s);
}

TEST_CASE("CommunicationOptions: connections") {
  CHECK(CommunicationOptions{}.data_connections() == 1);
  CHECK(CommunicationOptions{.connections = 3}.data_connections() == 3);
  CHECK_NOTHROW((CommunicationOptions{.connections = 16}.validate()));
  for (const int connections : {-1, 17})
    CHECK_THROWS_WITH_AS(
        (CommunicationOptions{.connections = connections}.validate()),
        concat({"CommunicationOptions::connections must be 0 (chosen by the library) to 16, got ",
                connections})
            .c_str(),
        ConfigurationError);
}

TEST_SUITE_END();
