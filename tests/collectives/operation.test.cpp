#include "lockstep/collectives/operation.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace lockstep;

TEST_CASE("operation: each has a name of its own, which messages use") {
  using enum Operation;
  std::set<std::string> names;
  for (const Operation operation : {none, all_reduce, broadcast, all_gather, barrier,
                                    reduce_scatter, reduce_scatter_all_gather}) {
    names.insert(to_string(operation));
    CHECK(detail::in_operation(operation) == "in " + std::string(to_string(operation)));
  }
  CHECK(names.size() == 7);
}
