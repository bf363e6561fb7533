// How much the ring combines and passes on at a time.
#include <doctest/doctest.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/ring/ring.hpp"

using namespace lockstep;

namespace {

/// A transport on which nothing moves: notes how much the first flow would take at once.
class FirstRoom {
 public:
  FirstRoom(int size, std::size_t& room) : size_(size), room_(&room) {}

  [[nodiscard]] int rank() const noexcept { return 1; }  // which combines first
  [[nodiscard]] int size() const noexcept { return size_; }
  void transfer(int, int, Flow& flow) {
    if (*room_ == 0) *room_ = flow.incoming().size();
  }
  void abort(std::string_view) noexcept {}

 private:
  int size_;
  std::size_t* room_;
};

std::size_t pack(int ranks, std::size_t bytes, std::int64_t asked = 0) {
  std::size_t room = 0;
  CommunicationOptions options;
  options.implementation = CommunicationImplementation::ring;
  options.bytes_per_pack = asked;
  Ring<FirstRoom> ring(FirstRoom(ranks, room), options);
  std::vector<float> values(bytes / sizeof(float));
  ring.all_reduce(std::span(values));
  return room;
}

constexpr std::size_t KiB = 1024;

}  // namespace

TEST_SUITE("ring engine") {
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
