#include "lockstep/collectives/operation.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "lockstep/core/error.hpp"

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

TEST_CASE("check_root: the root is one of the ranks") {
  detail::check_root(0, 1);
  detail::check_root(3, 4);
  CHECK_THROWS_WITH_AS(detail::check_root(4, 4), "broadcast: there is no rank 4 among 4", Error);
  CHECK_THROWS_AS(detail::check_root(-1, 4), Error);
}

TEST_CASE("check_lengths: all ranks together fill the array") {
  detail::check_lengths(3, 12, 4);
  detail::check_lengths(0, 0, 4);
  CHECK_THROWS_WITH_AS(detail::check_lengths(3, 11, 4),
                       "all_gather: 4 ranks of 3 bytes do not fill 11 bytes", Error);
  CHECK_THROWS_AS(detail::check_lengths(3, 3, 4), Error);
}

using detail::CollectiveCall;

TEST_CASE("CollectiveCall: says what belongs to the operation, and nothing else") {
  CHECK(to_string(CollectiveCall{.operation = Operation::barrier}) == "barrier, 0 bytes");
  CHECK(to_string(CollectiveCall{.operation = Operation::broadcast, .root = 2, .bytes = 7}) ==
        "broadcast from rank 2, 7 bytes");
  CHECK(to_string(CollectiveCall{.operation = Operation::all_reduce,
                                 .type = DataType::int64,
                                 .op = ReduceOp::max,
                                 .bytes = 16}) == "all_reduce(max) of int64, 16 bytes");
  CHECK(to_string(CollectiveCall{
            .operation = Operation::reduce_scatter, .bytes = 4, .status_count = 3}) ==
        "reduce_scatter of float and 3 status values, 4 bytes");
}

TEST_CASE("CollectiveCall: two calls are the same when all of it is") {
  const CollectiveCall call{.operation = Operation::all_reduce, .bytes = 16};
  CHECK(call == CollectiveCall{.operation = Operation::all_reduce, .bytes = 16});
  CHECK(call != CollectiveCall{.operation = Operation::all_gather, .bytes = 16});
  CHECK(call !=
        CollectiveCall{.operation = Operation::all_reduce, .type = DataType::float64, .bytes = 16});
  CHECK(call !=
        CollectiveCall{.operation = Operation::all_reduce, .op = ReduceOp::max, .bytes = 16});
  CHECK(call != CollectiveCall{.operation = Operation::all_reduce, .bytes = 16, .status_count = 1});
}
