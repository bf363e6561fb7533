#include "lockstep/core/huge_pages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>

namespace ls = lockstep;

TEST_CASE("huge pages: asking changes nothing that is in the memory, wherever it begins and however large it is") {
  constexpr std::size_t size = 3 * ls::huge_page;
  const std::unique_ptr<std::byte[]> memory(new std::byte[size]);
  std::fill_n(memory.get(), size, std::byte{7});
  for (const std::size_t begin : {0u, 1u, 4096u})
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, ls::huge_page, 2 * ls::huge_page})
      ls::ask_for_huge_pages(memory.get() + begin, length);
  CHECK(std::all_of(memory.get(), memory.get() + size, [](std::byte byte) { return byte == std::byte{7}; }));
}
