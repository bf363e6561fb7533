#include "lockstep/collectives/failure_text.hpp"

#include <doctest/doctest.h>

using namespace lockstep::detail;
using namespace std::chrono_literals;

TEST_SUITE("failure text") {
  TEST_CASE("a worker has the number of its place in the cluster, whatever its rank") {
    const WorkerNames names({"a:1", "b:2"}), in_elastic_world({"a:1", "b:2"}, {0, 4});
    CHECK(names.size() == 2);
    CHECK(names(1) == "worker 1 (b:2)");
    // A rank's certificate is for its worker; a rank that a stranger has made up stays what it is.
    for (const int rank : {0, 1, 2, -1}) CHECK(names.number(rank) == rank);
    CHECK(in_elastic_world.number(0) == 0);
    CHECK(in_elastic_world.number(1) == 4);
    CHECK(in_elastic_world.number(2) == 2);
    CHECK(in_elastic_world.number(-1) == -1);
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
