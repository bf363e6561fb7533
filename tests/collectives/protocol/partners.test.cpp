// Between which ranks data and words go.
#include "lockstep/collectives/protocol/partners.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/ring/ring.hpp"

using namespace lockstep;

namespace {

/// A transport on which nothing moves: notes between which ranks something would.
class NotingTransport {
 public:
  NotingTransport(int rank, int size, std::set<std::pair<int, int>>& pairs)
      : rank_(rank), size_(size), pairs_(&pairs) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  void transfer(int to, int from, Flow& flow) {
    if (flow.bytes_to_send() > 0) pairs_->insert({rank_, to});
    if (flow.bytes_to_receive() > 0) pairs_->insert({rank_, from});
  }
  void abort(std::string_view) noexcept {}

 private:
  int rank_;
  int size_;
  std::set<std::pair<int, int>>* pairs_;
};

static_assert(Transport<NotingTransport>);

}  // namespace

TEST_SUITE("partners") {
  TEST_CASE("a few ranks are all partners") {
    for (int size = 1; size <= 8; ++size) {
      CAPTURE(size);
      for (int a = 0; a < size; ++a)
        for (int b = 0; b < size; ++b) CHECK(detail::are_partners(a, b, size) == (a != b));
      CHECK(detail::partners_of(0, size).size() == static_cast<std::size_t>(size - 1));
    }
  }
  TEST_CASE("of many, the distance is a power of two, which holds for both") {
    CHECK(detail::are_partners(3, 4, 100));
    CHECK(detail::are_partners(3, 67, 100));
    CHECK(detail::are_partners(0, 99, 100));
    CHECK(detail::are_partners(0, 36, 100));  // 64 the other way round
    CHECK_FALSE(detail::are_partners(3, 6, 100));
    CHECK_FALSE(detail::are_partners(0, 50, 100));
    for (int size = 9; size < 70; ++size)
      for (int a = 0; a < size; ++a) {
        std::size_t count = 0;
        for (int b = 0; b < size; ++b) {
          CHECK(detail::are_partners(a, b, size) == detail::are_partners(b, a, size));
          count += detail::are_partners(a, b, size);
        }
        CHECK(count == detail::partners_of(a, size).size());
      }
    CHECK(detail::partners_of(0, 64).size() == 11);
    CHECK(detail::partners_of(0, 256).size() == 15);
    CHECK(detail::partners_of(0, 1000).size() == 20);
  }
  TEST_CASE("no operation of the ring needs others") {
    for (const int size : {9, 12, 16, 31, 64, 100})
      for (const auto way :
           {CommunicationImplementation::ring, CommunicationImplementation::gather}) {
        CAPTURE(size);
        std::set<std::pair<int, int>> pairs;
        for (int rank = 0; rank < size; ++rank) {
          CommunicationOptions options;
          options.implementation = way;
          Ring<NotingTransport> ring(NotingTransport(rank, size, pairs), options);
          std::vector<float> values(1000);
          ring.all_reduce(std::span(values));
          ring.reduce_scatter_blocks(std::span(values));
          ring.all_gather_blocks(std::span(values));
          ring.broadcast(std::as_writable_bytes(std::span(values)), 3);
          std::vector<float> all(values.size() * static_cast<std::size_t>(size));
          ring.all_gather(std::as_bytes(std::span(values)), std::as_writable_bytes(std::span(all)));
          ring.barrier();
        }
        CHECK(pairs.size() >= static_cast<std::size_t>(size) * 4);
        for (const auto& [from, to] : pairs) CHECK(detail::are_partners(from, to, size));
      }
  }
}

TEST_SUITE("control partners") {
  TEST_CASE("a few ranks are all connected, of many each one with few") {
    CHECK(detail::partners_of(2, 4) == std::vector{0, 1, 3});
    CHECK(detail::partners_of(0, 8).size() == 7);
    CHECK(detail::partners_of(3, 12) == std::vector{1, 2, 4, 5, 7, 11});
    CHECK(detail::partners_of(100, 256).size() == 15);
    CHECK(detail::partners_of(0, 1).empty());
  }

  TEST_CASE("at start-up rank 0 meets all, and the others their partners and rank 0") {
    CHECK(detail::meet_at_startup(0, 6, 12));
    CHECK(detail::meet_at_startup(6, 0, 12));
    CHECK(detail::meet_at_startup(3, 4, 12));
    CHECK_FALSE(detail::meet_at_startup(3, 6, 12));
    CHECK_FALSE(detail::meet_at_startup(0, 0, 12));
  }

  TEST_CASE("from any rank, some partner is nearer to any other one, and a few steps lead there") {
    for (const int size : {2, 9, 12, 31, 64, 100, 256})
      for (int to = 1; to < size; ++to) {
        int steps = 0;
        for (int at = 0; at != to; ++steps) {
          const auto partners = detail::partners_of(at, size);
          const auto distance = [&](int rank) { return detail::circle_distance(rank, to, size); };
          const int next = *std::min_element(
              partners.begin(), partners.end(),
              [&](int one, int other) { return distance(one) < distance(other); });
          REQUIRE(distance(next) < distance(at));
          at = next;
        }
        CHECK(steps <= 5);  // of 256
      }
  }

  TEST_CASE("all leave before rank 0, each one before a partner") {
    for (const int size : {2, 8, 9, 20, 100})
      for (int rank = 1; rank < size; ++rank) {
        const int next = detail::leaves_after(rank, size);
        CHECK(next < rank);
        CHECK(detail::are_partners(rank, next, size));
        if (size <= 8) CHECK(next == 0);
      }
  }
}
