// Which way an array goes, and how much the ring combines and passes on at a time.
#include <doctest/doctest.h>

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/ring/ring.hpp"

using namespace lockstep;

namespace {

constexpr auto any = CommunicationImplementation::automatic;
using detail::Algorithm;
constexpr std::size_t kib = 1024;
static_assert(detail::choose_algorithm(any, 128 * kib, 4, 1) == Algorithm::gather);
static_assert(detail::choose_algorithm(any, 128 * kib + 1, 4, 1) == Algorithm::ring);
static_assert(detail::choose_algorithm(any, 8 * kib, 4, 2) == Algorithm::gather);
static_assert(detail::choose_algorithm(any, 8 * kib + 1, 4, 2) ==
              Algorithm::ring);  // the hosts' link
static_assert(detail::choose_algorithm(CommunicationImplementation::ring, 1, 4, 1) ==
              Algorithm::ring);
static_assert(detail::choose_algorithm(CommunicationImplementation::gather, 1 << 30, 4, 4) ==
              Algorithm::gather);
static_assert(!detail::rounds(any, 128 * kib, 4) && detail::rounds(any, 128 * kib + 1, 4));
static_assert(detail::rounds(CommunicationImplementation::ring, 1, 4));

/// What the first flow would do.
struct First {
  int to = -1;
  std::size_t room = 0;  ///< bytes that it would take at once
};

/// A transport on which nothing moves.
class Still {
 public:
  Still(int size, First& first) : size_(size), first_(&first) {}

  [[nodiscard]] int rank() const noexcept { return 1; }  // which combines first
  [[nodiscard]] int size() const noexcept { return size_; }
  void transfer(int to, int, Flow& flow) {
    if (first_->to < 0) *first_ = {.to = to, .room = flow.incoming().size()};
  }
  void abort(std::string_view) noexcept {}

 private:
  int size_;
  First* first_;
};

std::size_t pack(int ranks, std::size_t bytes, std::int64_t asked = 0) {
  First first;
  CommunicationOptions options;
  options.implementation = CommunicationImplementation::ring;
  options.bytes_per_pack = asked;
  Ring<Still> ring(Still(ranks, first), options);
  std::vector<float> values(bytes / sizeof(float));
  ring.all_reduce(std::span(values));
  return first.room;
}

/// Whether the ranks gather all arrays: then rank 1 sends to the one before it first.
bool gathers(int ranks, int together, std::size_t bytes, CommunicationOptions options = {}) {
  First first;
  Ring<Still> ring(Still(ranks, first), std::move(options), together);
  std::vector<float> values(bytes / sizeof(float));
  ring.all_reduce(std::span(values));
  CHECK((first.to == 0 || first.to == 2));
  return first.to == 0;
}

constexpr std::size_t KiB = 1024;

}  // namespace

TEST_SUITE("ring engine") {
  TEST_CASE("what is short is gathered: where several ranks share a link, what is very short") {
    CHECK(gathers(16, 1, 32 * KiB));
    CHECK_FALSE(gathers(16, 1, 33 * KiB));
    CHECK(gathers(16, 2, 8 * KiB));
    CHECK_FALSE(gathers(16, 2, 9 * KiB));
    CHECK(gathers(16, 8, 512));
    CHECK_FALSE(gathers(16, 8, 1 * KiB));
    CHECK_FALSE(gathers(128, 2, 5 * KiB));
    CHECK(gathers(16, 8, 1 * KiB, {.implementation = CommunicationImplementation::gather}));
    CHECK_FALSE(gathers(16, 1, 1 * KiB, {.implementation = CommunicationImplementation::ring}));
  }
  TEST_CASE("with many blocks for each rank, packs are whole blocks") {
    CHECK(pack(2, 4096 * KiB) == 256 * KiB);
    CHECK(pack(8, 4096 * KiB) == 256 * KiB);
  }
  TEST_CASE("with few blocks for the ranks, packs are smaller, so that all links are busy") {
    CHECK(pack(16, 4096 * KiB) == 128 * KiB);
    CHECK(pack(64, 4096 * KiB) == 32 * KiB);
    CHECK(pack(512, 4096 * KiB) == 32 * KiB);
    CHECK(pack(2, 256 * KiB) == 64 * KiB);
    CHECK(pack(8, 256 * KiB) == 32 * KiB);
  }
  TEST_CASE("an option says otherwise") {
    CHECK(pack(8, 256 * KiB, 128 * 1024) == 128 * KiB);
    CHECK(pack(8, 4096 * KiB, 1) == 64);
  }
}
