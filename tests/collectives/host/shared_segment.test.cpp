#include "lockstep/collectives/host/shared_segment.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/core/error.hpp"

using namespace lockstep;
using detail::SegmentName;
using detail::SharedSegment;

namespace {

std::string problem_of(const SegmentName& name) {
  try {
    (void)SharedSegment::open(name);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_SUITE("shared segment") {
  TEST_CASE("what one mapping writes, the other reads") {
    const SharedSegment owner = SharedSegment::create(1'000'000, 42);
    SharedSegment other = SharedSegment::open(owner.name());
    CHECK(owner.data() != other.data());
    CHECK(other.size() == 1'000'000);
    CHECK(reinterpret_cast<std::uintptr_t>(owner.data()) % 64 == 0);
    CHECK(other.data()[999'999] == std::byte{0});
    owner.data()[999'999] = std::byte{7};
    CHECK(other.data()[999'999] == std::byte{7});
    const SharedSegment moved = std::move(other);
    CHECK(moved.data()[999'999] == std::byte{7});
  }

  TEST_CASE("the owner gives the memory back, also while others have it mapped") {
    std::optional owner(SharedSegment::create(1 << 20, 42));
    const SharedSegment other = SharedSegment::open(owner->name());
    owner->data()[500'000] = std::byte{7};
    owner.reset();
    CHECK(other.data()[500'000] == std::byte{0});
  }

  TEST_CASE("what the owner has given up stays as it is, and cannot be opened") {
    std::optional owner(SharedSegment::create(1 << 20, 42));
    const SharedSegment other = SharedSegment::open(owner->name());
    owner->data()[500'000] = std::byte{7};
    owner->disown();
    CHECK(!problem_of(owner->name()).empty());
    owner.reset();
    CHECK(other.data()[500'000] == std::byte{7});
  }

  TEST_CASE("nothing but the very segment is opened") {
    const SharedSegment owner = SharedSegment::create(1000, 42);
    SegmentName name = owner.name();
    name.cookie = 43;
    CHECK(problem_of(name).find("is not the shared memory that was announced") !=
          std::string::npos);
    name = owner.name();
    name.size = 100'000;
    CHECK(problem_of(name).find("is not the shared memory that was announced") !=
          std::string::npos);
    name = owner.name();
    name.descriptor = 0;  // some file
    CHECK(!problem_of(name).empty());
    name.descriptor = 999'999;
    CHECK(problem_of(name).find("No such file or directory") != std::string::npos);
  }
}
