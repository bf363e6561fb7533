#include "lockstep/collectives/rendezvous.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>

using namespace lockstep;

TEST_CASE(
    "rendezvous: ranks have a core each when no more of them are on this host than it has cores") {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  Rendezvous place;
  for (int i = 0; i < cores; ++i) place.addresses.push_back("here:" + std::to_string(1000 + i));
  for (int i = 0; i < cores; ++i)
    place.addresses.push_back("elsewhere:" + std::to_string(1000 + i));
  CHECK(place.has_cores_for_all());  // by the addresses
  place.addresses.push_back("here:2000");
  CHECK_FALSE(place.has_cores_for_all());
  place.rank = cores;  // the other host
  CHECK(place.has_cores_for_all());
  place.ranks_on_host = cores + 1;  // who knows it better says so
  CHECK_FALSE(place.has_cores_for_all());
}
