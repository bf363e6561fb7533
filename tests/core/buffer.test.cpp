#include "lockstep/core/buffer.hpp"

#include <doctest/doctest.h>

#include <sys/mman.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/skip.hpp"

namespace ls = lockstep;

#if defined(__linux__)
#endif

namespace ls = lockstep;

namespace {

/// Memory that begins at a huge page. Empty where there is none.
class Pages {
 public:
  explicit Pages(std::size_t pages) : size_((pages + 1) * ls::huge_page) {
#if defined(__linux__)
    void* const all =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all != MAP_FAILED) all_ = static_cast<std::byte*>(all);
#endif
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
#if defined(__linux__)
    if (all_ != nullptr) ::munmap(all_, size_);
#endif
  }
  [[nodiscard]] std::byte* data() const {
    return all_ +
           (ls::huge_page - reinterpret_cast<std::uintptr_t>(all_) % ls::huge_page) % ls::huge_page;
  }

 private:
  std::size_t size_;
  std::byte* all_ = nullptr;
};

/// Whether the system was asked for huge pages at an address: the flag "hg" in /proc/self/smaps.
bool was_asked_at(const std::byte* address) {
  std::ifstream file("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool is_there = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream text(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (text >> std::hex >> begin >> dash >> end && dash == '-')
      is_there = begin <= wanted && wanted < end;
    if (is_there && line.starts_with("VmFlags:"))
      return (line + " ").find(" hg ") != std::string::npos;
  }
  return false;
}

/// Whether this system takes the wish, and shows that it does.
bool can_be_asked() {
#if defined(__linux__)
  const Pages pages(1);
  return ::madvise(pages.data(), ls::huge_page, MADV_HUGEPAGE) == 0 && was_asked_at(pages.data());
#else
  return false;
#endif
}

}  // namespace

TEST_SUITE("huge pages [needs hugepages]") {
  TEST_CASE("huge pages: asked for where the memory has whole ones, and for no other") {
    if (!can_be_asked()) {
      lockstep_test::skip("huge pages",
                          "a Linux with transparent huge pages, and /proc/self/smaps");
      return;
    }
    const Pages pages(4);
    std::byte* const data = pages.data();
    ls::ask_for_huge_pages(data + 1, 2 * ls::huge_page - 2);
    CHECK_FALSE(was_asked_at(data));
    CHECK_FALSE(was_asked_at(data + ls::huge_page));
    ls::ask_for_huge_pages(data + 1, 3 * ls::huge_page);
    CHECK_FALSE(was_asked_at(data));
    CHECK(was_asked_at(data + ls::huge_page));
    CHECK(was_asked_at(data + 3 * ls::huge_page - 1));
    CHECK_FALSE(was_asked_at(data + 3 * ls::huge_page));
  }
}

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

TEST_CASE(
    "paged_buffer: zeros, again after release_pages, which leaves what is in part of a page") {
  constexpr std::size_t page = 4096, size = 8 * page + 100;
  const ls::Buffer buffer = ls::paged_buffer(size);
  REQUIRE(buffer.size() == size);
  const auto is = [&](std::size_t begin, std::size_t end, std::byte value) {
    return std::all_of(buffer.data() + begin, buffer.data() + end,
                       [&](std::byte b) { return b == value; });
  };
  CHECK(is(0, size, std::byte{0}));
  std::fill_n(buffer.data(), size, std::byte{7});
  ls::release_pages(buffer.data() + 100, 100);
  CHECK(is(0, size, std::byte{7}));
  ls::release_pages(buffer.data() + page - 10, 3 * page);  // two whole pages
#if defined(__linux__)
  CHECK(is(page, 3 * page, std::byte{0}));
#endif
  CHECK(is(0, page, std::byte{7}));
  CHECK(is(3 * page, size, std::byte{7}));
  CHECK(ls::paged_buffer(0).size() == 0);
}
