#include "lockstep/cluster/detail/worker_note.hpp"

#include <doctest/doctest.h>

using lockstep::detail::WorkerNote;

TEST_CASE("worker note: kind, peer and reason") {
  const WorkerNote note("lost 127.0.0.1:4711 was silent for 10 s");
  CHECK(note.kind == "lost");
  CHECK(note.about == "127.0.0.1:4711");
  CHECK(note.text == "was silent for 10 s");
}

TEST_CASE("worker note: parts that are missing are empty") {
  const WorkerNote stops("stops");
  CHECK(stops.kind == "stops");
  CHECK(stops.about.empty());
  CHECK(stops.text.empty());
  CHECK(stops.time().time_since_epoch().count() == 0);
  CHECK(WorkerNote("").kind.empty());
}

TEST_CASE("worker note: a time of the clock that all processes share") {
  const WorkerNote met("met 123456789");
  CHECK(met.time().time_since_epoch().count() == 123456789);
  CHECK(WorkerNote("met soon").time().time_since_epoch().count() == 0);
}
