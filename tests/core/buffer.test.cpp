#include "lockstep/core/buffer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace ls = lockstep;

static_assert(!std::is_copy_constructible_v<ls::Buffer> && !std::is_copy_assignable_v<ls::Buffer>);
static_assert(std::is_nothrow_move_constructible_v<ls::Buffer> &&
              std::is_nothrow_move_assignable_v<ls::Buffer>);

TEST_CASE("Buffer: zeroed, aligned to a cache line, large ones to a huge page") {
  for (const std::size_t size : {1U, 63U, 4096U, 1U << 21, (1U << 21) + 5}) {
    CAPTURE(size);
    const ls::Buffer buffer(size);
    CHECK(buffer.size() == size);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % (size >= 1U << 21 ? 1U << 21 : 64U) ==
          0);
    CHECK(std::all_of(buffer.data(), buffer.data() + size,
                      [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST_CASE("Buffer: an empty one has no memory") {
  CHECK(ls::Buffer().data() == nullptr);
  CHECK(ls::Buffer(0).data() == nullptr);
  CHECK(ls::Buffer(0).size() == 0);
}

TEST_CASE("Buffer: a move hands over the memory, and self-assignment keeps it") {
  ls::Buffer a(100);
  std::byte* const data = a.data();
  ls::Buffer b(std::move(a));
  CHECK(b.data() == data);
  CHECK(a.data() ==
        nullptr);  // NOLINT(bugprone-use-after-move): what a moved-from buffer holds is promised
  CHECK(a.size() == 0);
  ls::Buffer c(5);
  c = std::move(b);
  CHECK(c.data() == data);
  CHECK(c.size() == 100);
  ls::Buffer& same = c;
  c = std::move(same);
  CHECK(c.data() == data);
}

TEST_CASE("Buffer: memory of the caller is released once, by the caller's function") {
  struct Release {
    int calls = 0;
    std::size_t size = 0;
  } release;
  std::byte memory[8];
  {
    ls::Buffer first(
        memory, sizeof memory,
        [](std::byte*, std::size_t size, void* context) {
          auto& seen = *static_cast<Release*>(context);
          ++seen.calls;
          seen.size = size;
        },
        &release);
    const ls::Buffer second = std::move(first);
    CHECK(release.calls == 0);
  }
  CHECK(release.calls == 1);
  CHECK(release.size == sizeof memory);
}
