#include "lockstep/collectives/tls/tls_identity.hpp"

#include <doctest/doctest.h>

#include <string>

using lockstep::detail::TlsIdentity;
using lockstep::detail::worker_of;

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

TEST_CASE("tls identity: in an elastic world, a rank's certificate is for its worker") {
  CHECK(worker_of({}, 3) == 3);
  CHECK(worker_of({0, 2, 3}, 0) == 0);
  CHECK(worker_of({0, 2, 3}, 2) == 3);
  CHECK(worker_of({0, 2, 3}, 3) == 3);
  CHECK(worker_of({0, 2, 3}, -1) == -1);
}
