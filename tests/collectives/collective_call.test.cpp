#include "lockstep/collectives/operation.hpp"

#include <doctest/doctest.h>

using namespace lockstep;
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
