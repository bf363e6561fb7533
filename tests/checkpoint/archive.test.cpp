#include "lockstep/checkpoint/archive.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_testing.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/random.hpp"
#include "support/model_testing.hpp"
#include "support/source_path.hpp"

namespace ls = lockstep;
using lockstep_test::contains;
using lockstep_test::full_state;
using lockstep_test::message_of;
using lockstep_test::some_bytes;

namespace {

using Bytes = std::vector<std::byte>;
constexpr std::size_t header = 36;

std::string message_of_decode(const Bytes& bytes) {
  return message_of<ls::DataError>([&] { (void)ls::decode_checkpoint(bytes); });
}

void put(Bytes& bytes, std::size_t at, std::uint64_t number, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<std::byte>(number >> (8 * i));
}

std::size_t manifest_size(const Bytes& bytes) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < 8; ++i) size |= static_cast<std::size_t>(bytes[12 + i]) << (8 * i);
  return size;
}

/// Makes sizes and checksums of the header right, as an attacker would.
void seal(Bytes& bytes) {
  const std::span<const std::byte> rest = std::span(bytes).subspan(header);
  const std::span<const std::byte> manifest =
      rest.first(std::min(manifest_size(bytes), rest.size()));
  put(bytes, 12, manifest.size(), 8);
  put(bytes, 20, rest.size() - manifest.size(), 8);
  put(bytes, 28, ls::crc32c(manifest), 4);
  put(bytes, 32, ls::crc32c(std::span(bytes).first(32)), 4);
}

/// A checkpoint with a right header whose manifest is `manifest`, without data.
Bytes sealed(const Bytes& manifest) {
  Bytes bytes = ls::encode_checkpoint({});
  bytes.resize(header);
  bytes.insert(bytes.end(), manifest.begin(), manifest.end());
  put(bytes, 12, manifest.size(), 8);
  seal(bytes);
  return bytes;
}

/// A file that is kept beside this test.
Bytes sample(const char* name) {
  const auto bytes =
      ls::read_file(lockstep_test::source_path(std::string("tests/checkpoint/samples/") + name));
  REQUIRE(bytes.has_value());
  return *bytes;
}

/// Decodes bytes that may be anything. False when they are refused; any other exception is passed
/// on.
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

TEST_CASE("archive: EncodedCheckpoint does not copy the elements of arrays") {
  const ls::TrainingState state = full_state();
  const ls::EncodedCheckpoint encoded(state);
  const ls::ByteParts parts = encoded.parts();
  Bytes joined;
  for (const auto part : parts) joined.insert(joined.end(), part.begin(), part.end());
  CHECK(joined == sample("version_1.ckpt"));
  CHECK(parts.size() == joined.size());
  CHECK((parts.begin() + 1)->data() == state.parameters[0].bytes.data());
}

TEST_CASE("archive: large arrays come back, and a flipped bit anywhere in them is noticed") {
  constexpr std::size_t size = std::size_t{5} << 20;
  ls::TrainingState state;
  state.parameters.push_back(
      {.name = "large", .extents = {size / 4}, .bytes = lockstep_test::some_bytes(size)});
  Bytes bytes = ls::encode_checkpoint(state);
  CHECK(ls::decode_checkpoint(bytes) == state);
  for (const std::size_t from_end : {std::size_t{1}, size / 2, size}) {
    std::byte& byte = bytes[bytes.size() - from_end];
    byte ^= std::byte{4};
    CHECK(contains(message_of_decode(bytes), "the checksum of array 'large' does not match"));
    byte ^= std::byte{4};
  }
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
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               denormal = std::numeric_limits<double>::denorm_min();
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

TEST_CASE("archive: the header is little-endian, and equal states give equal bytes") {
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
  for (std::size_t size = header; size < bytes.size(); ++size) {
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
  CHECK(contains(message_of_decode(bytes), "1 bytes belong to no array"));
  put(bytes, 12, manifest_size(bytes) + 1, 8);
  seal(bytes);
  CHECK(contains(message_of_decode(bytes), "checksum"));
  CHECK(contains(message_of_decode(sealed(some_bytes(3))), "damaged"));
}

TEST_CASE("archive: the messages say what is wrong") {
  CHECK(contains(message_of_decode({}), "these 0 bytes are no lockstep checkpoint"));
  CHECK(contains(message_of_decode(Bytes(1000)), "no lockstep checkpoint"));
  Bytes newer = ls::encode_checkpoint({});
  put(newer, 8, ls::checkpoint_format_version + 1, 4);
  CHECK(contains(message_of_decode(newer), "use a newer lockstep"));
  const auto damaged = [](std::size_t at) {
    Bytes bytes = ls::encode_checkpoint(full_state());
    bytes[at] ^= std::byte{1};
    return message_of_decode(bytes);
  };
  CHECK(contains(damaged(13), "the checksum of the header does not match"));
  CHECK(contains(damaged(header + 5), "the checksum of the manifest does not match"));
  CHECK(contains(damaged(ls::encode_checkpoint(full_state()).size() - 1),
                 "the checksum of array 'dense/kernel/slot_0' does not match"));
}

TEST_CASE("archive: a crafted size of 2^60 is refused before memory is taken for it") {
  // The manifest starts with cereal's mark of the byte order and the number of sections.
  Bytes manifest(9);
  manifest[0] = std::byte{1};
  for (const std::uint64_t size :
       {std::uint64_t{1}, std::uint64_t{1} << 31, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    put(manifest, 1, size, 8);
    CAPTURE(size);
    CHECK(contains(message_of_decode(sealed(manifest)),
                   "elements are announced where 0 bytes are left"));
  }
  CHECK_FALSE(decodes(sealed({})));
}

TEST_CASE("archive: extents and bytes of an array must agree") {
  const auto refused = [](ls::SavedArray array) {
    ls::TrainingState state;
    state.slots = {std::move(array)};
    return message_of_decode(ls::encode_checkpoint(state));
  };
  const std::uint64_t large = std::uint64_t{1} << 32;
  CHECK(contains(refused({.name = "a", .extents = {2, 3}, .bytes = some_bytes(20)}),
                 "array 'a' (2, 3) of float32 cannot have 20 bytes"));
  CHECK(contains(refused({.name = "a", .extents = {large, large}, .bytes = {}}),
                 "cannot have 0 bytes"));  // 2^64
  CHECK(
      contains(refused({.name = "a", .scalar = "float64", .extents = {1}, .bytes = some_bytes(4)}),
               "cannot have 4"));
  CHECK(
      contains(refused({.name = "a", .scalar = "float31", .extents = {1}, .bytes = some_bytes(4)}),
               "'float31'"));
  CHECK(refused({.name = "a", .extents = {large, large, 0}, .bytes = {}}) == "NO EXCEPTION");
}

TEST_CASE("archive: any 8 bytes of the manifest may claim to be huge") {
  const Bytes bytes = ls::encode_checkpoint(full_state());
  int refused = 0;
  for (std::size_t at = header; at + 8 <= bytes.size(); ++at)
    for (const std::uint64_t number :
         {~std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 33}) {
      Bytes changed = bytes;
      put(changed, at, number, 8);
      seal(changed);
      refused += decodes(changed) ? 0 : 1;  // changed numbers that are no sizes are not noticed
    }
  CHECK(refused > 1000);
}

TEST_CASE("archive: random bytes with right checksums are refused or decoded, never a crash") {
  ls::RandomStream random{ls::RandomKey(5)};
  const Bytes bytes = ls::encode_checkpoint(full_state());
  for (int round = 0; round < 3000; ++round) {
    Bytes changed = bytes;
    for (std::uint64_t n = 1 + random.below(6); n > 0; --n)
      changed[header + random.below(changed.size() - header)] =
          static_cast<std::byte>(random.below(2) == 0 ? random.below(256) : random.below(3));
    if (random.below(4) == 0) changed.resize(header + random.below(changed.size() - header));
    seal(changed);
    (void)decodes(changed);
  }
}

TEST_CASE("archive: what most states have zeros for comes back") {
  ls::TrainingState state = full_state();
  CHECK(ls::decode_checkpoint(ls::encode_checkpoint(state)).previous_learning_rate == 0);
  state.previous_learning_rate = 0.2;
  state.accumulated_steps = 3;
  state.accumulated_rows = 24;
  state.shows_averages = true;
  state.samples = 60'000;
  state.samples_checksum = 0xFFFF'FFFF;
  state.epoch_steps = 70;
  state.pipeline = "from_tensor_slices -> batch(5)";
  state.class_weight = {1, 2.5};
  CHECK(ls::decode_checkpoint(ls::encode_checkpoint(state)) == state);
}

TEST_CASE("archive: a file of this format loads, and is what is written today") {
  CHECK(ls::decode_checkpoint(sample("version_1.ckpt")) == full_state());
  CHECK(ls::encode_checkpoint(full_state()) == sample("version_1.ckpt"));
}

TEST_CASE("archive: missing sections and entries are named, unknown ones are skipped") {
  const auto renamed = [](std::string_view from, std::string_view to) {
    Bytes bytes = ls::encode_checkpoint(full_state());
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    for (std::size_t i = 0; i < to.size(); ++i) bytes[at + i] = static_cast<std::byte>(to[i]);
    seal(bytes);
    return bytes;
  };
  CHECK(contains(message_of_decode(renamed("model", "mODEL")),
                 "sections 'model' and 'fit', got 0 and 1"));
  CHECK(contains(message_of_decode(renamed("seed", "sEED")),
                 "section 'model': saved state has no entry 'seed'"));
  CHECK(contains(message_of_decode(renamed("data_position", "data_pOSITION")), "section 'fit': "));
  ls::TrainingState without_objects = full_state();
  without_objects.objects = {};
  CHECK(ls::decode_checkpoint(renamed("objects", "oBJECTS")) == without_objects);
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

TEST_CASE("archive: a file is refused by its header and its size, before it is read") {
  const auto refusal = [](Bytes bytes, std::uint64_t size,
                          std::optional<std::uint64_t> expected = {}) {
    bytes.resize(std::min(bytes.size(), ls::checked_head));
    return message_of<ls::DataError>([&] { ls::checkpoint_check(expected)(bytes, size); });
  };
  const Bytes bytes = ls::encode_checkpoint(full_state());
  CHECK(refusal(bytes, bytes.size(), 88) == "NO EXCEPTION");
  constexpr std::uint64_t large = std::uint64_t{8} << 30;
  CHECK(contains(refusal(Bytes(64), large), "these 8589934592 bytes are no lockstep checkpoint"));
  CHECK(contains(refusal(bytes, large), "the file is cut off or has grown"));
  CHECK(contains(refusal(bytes, bytes.size() - 1), "the file is cut off or has grown"));
  CHECK(contains(refusal(Bytes(bytes.begin(), bytes.begin() + 20), 20),
                 "expected 36 bytes of header, got 20"));
  Bytes newer = bytes;
  put(newer, 8, ls::checkpoint_format_version + 1, 4);
  CHECK(contains(refusal(newer, newer.size()), "use a newer lockstep"));

  // A header that tells the true size, which is far more than this model's state.
  Bytes huge = bytes;
  put(huge, 20, large - header - manifest_size(huge), 8);
  put(huge, 32, ls::crc32c(std::span(huge).first(32)), 4);
  CHECK(refusal(huge, large) == "NO EXCEPTION");
  CHECK(contains(refusal(huge, large, 88),
                 "bytes of data, and for this model at most 268436864 are read"));
  put(huge, 12, large - header, 8);
  put(huge, 20, 0, 8);
  put(huge, 32, ls::crc32c(std::span(huge).first(32)), 4);
  CHECK(contains(refusal(huge, large, 88), "bytes of manifest, and for this model at most"));
}
