#include "lockstep/collectives/ring/ring_flow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/harness.hpp"

using namespace lockstep;
using namespace lockstep_test;
using detail::RingFlow;
using detail::RingStaging;

namespace {

/// Moves bytes from each rank to the next one, at most `portion` at once, until nothing moves any
/// more.
void run_ring(const std::vector<std::unique_ptr<RingFlow>>& flows, std::size_t portion) {
  std::vector<std::uint64_t> sent(flows.size());
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t rank = 0; rank < flows.size(); ++rank) {
      RingFlow& next = *flows[(rank + 1) % flows.size()];
      const auto out = flows[rank]->outgoing();
      const auto in = next.incoming();
      CHECK(out.size() <= flows[rank]->rest_of_part_to_send());
      CHECK(in.size() <= next.rest_of_part_to_receive());
      CHECK(flows[rank]->rest_of_part_to_send() == next.rest_of_part_to_receive());
      const std::size_t bytes = std::min({out.size(), in.size(), portion});
      if (bytes == 0) continue;
      std::copy_n(out.begin(), bytes, in.begin());
      flows[rank]->sent(bytes);
      next.received(bytes);
      sent[rank] += bytes;
      moves = true;
    }
  }
  for (std::size_t rank = 0; rank < flows.size(); ++rank) {
    CHECK(sent[rank] == flows[rank]->bytes_to_send());
    CHECK(sent[rank] == flows[(rank + 1) % flows.size()]->bytes_to_receive());
  }
}

template <class T>
std::vector<std::vector<T>> reduced(std::vector<std::vector<T>> arrays, ReduceOp op,
                                    std::vector<double>& statuses, std::size_t pack_bytes) {
  const auto ranks = static_cast<int>(arrays.size());
  std::vector<RingStaging> staging(arrays.size());
  std::vector<std::unique_ptr<RingFlow>> flows;
  for (std::size_t rank = 0; rank < arrays.size(); ++rank)
    flows.push_back(std::make_unique<RingFlow>(staging[rank], pack_bytes, static_cast<int>(rank),
                                               ranks, std::span(&statuses[rank], 1),
                                               std::span(arrays[rank]), op));
  run_ring(flows, 50'000);
  return arrays;
}

}  // namespace

TEST_CASE_TEMPLATE("RingFlow: sums of each type are those of the numerics contract, on all ranks",
                   T, float, double, std::int64_t) {
  for (const int ranks : {2, 3, 4})
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, 3 * block_elements + 17}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<std::vector<T>> arrays;
      for (int rank = 0; rank < ranks; ++rank) {
        arrays.push_back(random_numbers<T>(rank, count));
        for (T& value : arrays.back()) value = value * T(100);  // also whole numbers differ
      }
      std::vector<double> statuses(arrays.size(), 1.0);
      const auto expected = contract_sum(arrays);
      for (const auto& result : reduced(arrays, ReduceOp::sum, statuses, 4096))
        CHECK(result == expected);
      CHECK(statuses == std::vector<double>(arrays.size(), ranks));
    }
}

TEST_CASE_TEMPLATE("RingFlow: maxima of each type", T, float, double, std::int64_t) {
  const std::vector<std::vector<T>> arrays{{1, 5, -2}, {3, 4, -1}, {2, 2, -3}};
  std::vector<double> statuses{1, 3, 2};
  for (const auto& result : reduced(arrays, ReduceOp::max, statuses, 64))
    CHECK(result == std::vector<T>{3, 5, -1});
  CHECK(statuses == std::vector<double>(3, 3.0));
}
