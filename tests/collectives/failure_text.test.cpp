#include "lockstep/collectives/failure_text.hpp"

#include <doctest/doctest.h>

using namespace lockstep::detail;
using namespace std::chrono_literals;

TEST_SUITE("failure text") {
  TEST_CASE("a worker has the number of its place in the cluster, whatever its rank") {
    const WorkerNames names({"a:1", "b:2"}), in_elastic_world({"a:1", "b:2"}, {0, 4});
    CHECK(names.size() == 2);
    CHECK(names(1) == "worker 1 (b:2)");
    CHECK(in_elastic_world(1) == "worker 4 (b:2)");
    CHECK(in_elastic_world.shortly(1) == "worker 4");
    CHECK(in_elastic_world.shortly(9) == "worker 9");  // as a stranger claims
  }

  TEST_CASE("sentences are whole, with and without what may be missing") {
    CHECK(came_to_its_end("worker 0", "in barrier", "") ==
          "came to its end while worker 0 in barrier still waits for it; all workers must run the "
          "same number of steps");
    CHECK(
        came_to_its_end("worker 0", "in barrier", "load").ends_with("steps; worker 0 is in load"));
    CHECK(made_no_progress(50ms, "is alive") ==
          "kept others waiting for more than 50 ms (CommunicationOptions::progress_timeout), "
          "although it is alive");
  }
}
