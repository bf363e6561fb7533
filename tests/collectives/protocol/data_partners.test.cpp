// Between which ranks data goes.
#include <doctest/doctest.h>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/protocol/data_partners.hpp"
#include "lockstep/collectives/ring/ring.hpp"

#include <set>
#include <string_view>
#include <utility>
#include <vector>

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

TEST_SUITE("data partners") {
  TEST_CASE("a few ranks are all partners") {
    for (int size = 1; size <= 8; ++size) {
      CAPTURE(size);
      for (int a = 0; a < size; ++a)
        for (int b = 0; b < size; ++b) CHECK(detail::are_data_partners(a, b, size) == (a != b));
      CHECK(detail::count_data_partners(size) == static_cast<std::size_t>(size - 1));
    }
  }
  TEST_CASE("of many, the distance is a power of two, which holds for both") {
    CHECK(detail::are_data_partners(3, 4, 100));
    CHECK(detail::are_data_partners(3, 67, 100));
    CHECK(detail::are_data_partners(0, 99, 100));
    CHECK(detail::are_data_partners(0, 36, 100));  // 64 the other way round
    CHECK_FALSE(detail::are_data_partners(3, 6, 100));
    CHECK_FALSE(detail::are_data_partners(0, 50, 100));
    for (int size = 9; size < 70; ++size)
      for (int a = 0; a < size; ++a) {
        std::size_t count = 0;
        for (int b = 0; b < size; ++b) {
          CHECK(detail::are_data_partners(a, b, size) == detail::are_data_partners(b, a, size));
          count += detail::are_data_partners(a, b, size);
        }
        CHECK(count == detail::count_data_partners(size));
      }
    CHECK(detail::count_data_partners(64) == 11);
    CHECK(detail::count_data_partners(256) == 15);
    CHECK(detail::count_data_partners(1000) == 20);
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
        for (const auto& [from, to] : pairs) CHECK(detail::are_data_partners(from, to, size));
      }
  }
}
