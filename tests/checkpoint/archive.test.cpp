#include "lockstep/checkpoint/archive.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "model/model_testing.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::full_state;
using lockstep_test::message_of;

namespace {

using Bytes = std::vector<std::byte>;
constexpr std::size_t envelope = 24;  // magic, version, size, checksum

std::string message_of_decode(const Bytes& bytes) {
  return message_of<ls::DataError>([&] { (void)ls::decode_checkpoint(bytes); });
}

void put(Bytes& bytes, std::size_t at, std::uint64_t number, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<std::byte>(number >> (8 * i));
}

/// Makes size and checksum of the envelope right, as somebody who wants to do harm would.
void seal(Bytes& bytes) {
  const std::span<const std::byte> payload = std::span(bytes).subspan(envelope);
  put(bytes, 12, payload.size(), 8);
  put(bytes, 20, ls::crc32c(payload), 4);
}

/// A checkpoint with a right envelope whose payload is `payload`.
Bytes sealed(const Bytes& payload) {
  Bytes bytes = ls::encode_checkpoint({});
  bytes.resize(envelope);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  seal(bytes);
  return bytes;
}

/// Decodes bytes that may be anything. False when they are refused; any other exception is passed on.
bool decodes(const Bytes& bytes) {
  try {
    (void)ls::decode_checkpoint(bytes);
    return true;
  } catch (const ls::DataError&) {
    return false;
  }
}

}  // namespace

TEST_CASE("archive: a state of everything comes back") {
  CHECK(ls::decode_checkpoint(ls::encode_checkpoint(full_state())) == full_state());
}

TEST_CASE("archive: an empty state comes back") {
  CHECK(ls::decode_checkpoint(ls::encode_checkpoint({})) == ls::TrainingState{});
}

TEST_CASE("archive: every type of a State comes back, with its bits") {
  const auto back = [](ls::State state) {
    ls::TrainingState saved;
    saved.callbacks = {std::move(state)};
    return ls::decode_checkpoint(ls::encode_checkpoint(saved)).callbacks[0];
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), denormal = std::numeric_limits<double>::denorm_min();
  ls::State state;
  state.put("int", std::numeric_limits<std::int64_t>::min());
  state.put("double", denormal);
  state.put("nan", nan);
  state.put("text", std::string(300, 'x'));
  state.put("ints", std::vector<std::int64_t>(100, -1));
  state.put("doubles", std::vector<double>{nan, -0.0, denormal});
  const ls::State restored = back(state);
  CHECK(restored.get<std::int64_t>("int") == std::numeric_limits<std::int64_t>::min());
  CHECK(restored.get<double>("double") == denormal);
  CHECK(std::isnan(restored.get<double>("nan")));
  CHECK(restored.get<std::string>("text") == std::string(300, 'x'));
  CHECK(restored.get<std::vector<std::int64_t>>("ints") == std::vector<std::int64_t>(100, -1));
  const auto doubles = restored.get<std::vector<double>>("doubles");
  REQUIRE(doubles.size() == 3);
  CHECK(std::isnan(doubles[0]));
  CHECK(std::signbit(doubles[1]));
  CHECK(doubles[2] == denormal);
  CHECK(restored.values().size() == 6);
}

TEST_CASE("archive: the envelope is little-endian, and equal states give equal bytes") {
  const Bytes bytes = ls::encode_checkpoint(full_state());
  CHECK(bytes == ls::encode_checkpoint(full_state()));
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), 8) == "LOCKSTEP");
  Bytes expected = bytes;
  put(expected, 8, ls::checkpoint_format_version, 4);
  seal(expected);
  CHECK(bytes == expected);
}

TEST_CASE("archive: every truncation is refused") {
  const Bytes bytes = ls::encode_checkpoint(full_state());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS((void)ls::decode_checkpoint(std::span(bytes).first(size)), ls::DataError);
  }
}

TEST_CASE("archive: every truncation with a right checksum is refused") {
  const Bytes bytes = ls::encode_checkpoint(full_state());
  for (std::size_t size = envelope; size < bytes.size(); ++size) {
    CAPTURE(size);
    Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    seal(cut);
    CHECK_THROWS_AS((void)ls::decode_checkpoint(cut), ls::DataError);
  }
}

TEST_CASE("archive: every flipped bit is noticed") {
  const Bytes bytes = ls::encode_checkpoint(full_state());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      Bytes flipped = bytes;
      flipped[i] ^= static_cast<std::byte>(1 << bit);
      CAPTURE(i);
      CAPTURE(bit);
      CHECK_THROWS_AS((void)ls::decode_checkpoint(flipped), ls::DataError);
    }
}

TEST_CASE("archive: bytes at the end are noticed, with and without a right checksum") {
  Bytes bytes = ls::encode_checkpoint(full_state());
  bytes.push_back(std::byte{0});
  CHECK(contains(message_of_decode(bytes), "cut off or has grown"));
  seal(bytes);
  CHECK(contains(message_of_decode(bytes), "1 bytes too many"));
}

TEST_CASE("archive: the messages say what is wrong") {
  CHECK(contains(message_of_decode({}), "these 0 bytes are no lockstep checkpoint"));
  CHECK(contains(message_of_decode(Bytes(1000)), "no lockstep checkpoint"));
  Bytes newer = ls::encode_checkpoint({});
  put(newer, 8, ls::checkpoint_format_version + 1, 4);
  CHECK(contains(message_of_decode(newer), "use a newer lockstep"));
  Bytes damaged = ls::encode_checkpoint({});
  damaged.back() ^= std::byte{1};
  CHECK(contains(message_of_decode(damaged), "checksum does not match"));
}

TEST_CASE("archive: a crafted size of 2^60 is refused before memory is taken for it") {
  // The payload starts with cereal's mark of the byte order and the size of the first text.
  Bytes payload(9);
  payload[0] = std::byte{1};
  for (const std::uint64_t size :
       {std::uint64_t{1}, std::uint64_t{1} << 31, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    put(payload, 1, size, 8);
    CAPTURE(size);
    CHECK(contains(message_of_decode(sealed(payload)), "elements are announced where 0 bytes are left"));
  }
  CHECK_FALSE(decodes(sealed({})));
}

TEST_CASE("archive: any 8 bytes of the payload may claim to be huge") {
  const Bytes bytes = ls::encode_checkpoint(full_state());
  int refused = 0;
  for (std::size_t at = envelope; at + 8 <= bytes.size(); ++at)
    for (const std::uint64_t number : {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 33}) {
      Bytes changed = bytes;
      put(changed, at, number, 8);
      seal(changed);
      refused += decodes(changed) ? 0 : 1;  // changed numbers that are no sizes are not noticed
    }
  CHECK(refused > 1000);
}

TEST_CASE("archive: random bytes with a right envelope are refused or decoded, never a crash") {
  ls::RandomStream random{ls::RandomKey(5)};
  const Bytes bytes = ls::encode_checkpoint(full_state());
  for (int round = 0; round < 3000; ++round) {
    Bytes changed = bytes;
    for (std::uint64_t n = 1 + random.below(6); n > 0; --n) {
      const std::size_t at = envelope + random.below(changed.size() - envelope);
      changed[at] = static_cast<std::byte>(random.below(2) == 0 ? random.below(256) : random.below(3));
    }
    if (random.below(4) == 0) changed.resize(envelope + random.below(changed.size() - envelope));
    seal(changed);
    (void)decodes(changed);
  }
}

TEST_CASE("archive: an entry of an unknown type is refused") {
  ls::TrainingState saved;
  saved.callbacks.resize(1);
  saved.callbacks[0].put("entry", 1);
  Bytes bytes = ls::encode_checkpoint(saved);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bytes[text.find("entry") + 5] = std::byte{9};
  seal(bytes);
  CHECK(contains(message_of_decode(bytes), "entry 'entry' has the unknown type 9"));
}
