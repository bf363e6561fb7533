#include "lockstep/checkpoint/detail/checkpoint_header.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep::detail;
using lockstep_test::contains;
using lockstep_test::message_of;

TEST_CASE("size_limit: a multiple of the model's size, and no limit without a model") {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  CHECK(ls::detail::size_limit({}) == most);
  CHECK(ls::detail::size_limit(most) == most);
  CHECK(ls::detail::size_limit(0) == std::uint64_t{1} << 28);
  CHECK(ls::detail::size_limit(std::uint64_t{1} << 30) ==
        (std::uint64_t{1} << 34) + (std::uint64_t{1} << 28));
}

namespace {

/// A header with a right checksum.
std::vector<std::byte> header(std::uint64_t manifest, std::uint64_t data) {
  std::vector<std::byte> head(checkpoint_header);
  std::memcpy(head.data(), checkpoint_magic.data(), checkpoint_magic.size());
  put_number(head.data() + 8, ls::checkpoint_format_version, 4);
  put_number(head.data() + 12, manifest, 8);
  put_number(head.data() + 20, data, 8);
  put_number(head.data() + 32, ls::crc32c(std::span(head).first(32)), 4);
  return head;
}

std::string refusal(std::span<const std::byte> head, std::uint64_t size, std::uint64_t limit) {
  return message_of<ls::DataError>([&] { check_checkpoint_size(head, size, limit); });
}

}  // namespace

TEST_CASE("checkpoint header: the sizes are those of the file, and within the limit") {
  const auto head = header(10, 20);
  CHECK(refusal(head, 66, 20) == "NO EXCEPTION");
  CHECK(contains(refusal(head, 67, 20), "the file is cut off or has grown"));
  CHECK(contains(refusal(head, 40, 20), "the file is cut off or has grown"));
  CHECK(contains(refusal(head, 66, 19),
                 "it has 20 bytes of data, and for this model at most 19 are read"));
  CHECK(
      contains(refusal(std::span(head).first(20), 20, 20), "expected 36 bytes of header, got 20"));
}

TEST_CASE("checkpoint header: other versions are refused") {
  auto head = header(0, 0);
  check_checkpoint_version(head, 36);
  for (const std::uint64_t unknown :
       {std::uint64_t{0}, std::uint64_t{ls::checkpoint_format_version} + 1}) {
    put_number(head.data() + 8, unknown, 4);
    CHECK_THROWS_AS(check_checkpoint_version(head, 36), ls::DataError);
  }
  head[0] = std::byte{'l'};
  CHECK(contains(message_of<ls::DataError>([&] { check_checkpoint_version(head, 36); }),
                 "are no lockstep checkpoint"));
}
