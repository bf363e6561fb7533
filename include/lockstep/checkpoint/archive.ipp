#pragma once

#include <algorithm>
#include <cereal/cereal.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/detail/checkpoint_header.hpp"
#include "lockstep/checkpoint/detail/manifest.hpp"
#include "lockstep/checkpoint/training_state.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Throws DataError unless an array of these extents has `size` bytes.
LOCKSTEP_INLINE void check_array_size(std::string_view name, std::string_view scalar,
                                      std::span<const std::uint64_t> extents, std::uint64_t size) {
  if (array_size(extents, scalar_size(scalar)) != size)
    throw DataError(concat({"checkpoint: array ", in_quotes(name), " ", shape_text(extents), " of ",
                            scalar, " cannot have ", size, " bytes"}));
}

/// Takes the elements of an array from the front of `data`.
LOCKSTEP_INLINE SavedArray take_array(ArrayEntry entry, std::span<const std::byte>& data) {
  check_array_size(entry.name, entry.scalar, entry.extents, entry.size);
  if (entry.size > data.size())
    throw DataError(concat({"checkpoint: damaged: array ", in_quotes(entry.name), " has ",
                            entry.size, " bytes where ", data.size(), " are left"}));
  const std::span<const std::byte> bytes = data.first(static_cast<std::size_t>(entry.size));
  data = data.subspan(bytes.size());
  if (crc32c(bytes) != entry.crc)
    throw DataError(concat(
        {"checkpoint: damaged: the checksum of array ", in_quotes(entry.name), " does not match"}));
  return {.name = std::move(entry.name),
          .scalar = std::move(entry.scalar),
          .extents = std::move(entry.extents),
          .bytes = {bytes.begin(), bytes.end()}};
}

LOCKSTEP_INLINE TrainingState decode_state(std::span<const std::byte> bytes) {
  const std::span<const std::byte> rest = bytes.subspan(checkpoint_header);
  const std::span<const std::byte> manifest =
      rest.first(static_cast<std::size_t>(get_number(bytes.data() + 12, 8)));
  std::span<const std::byte> data = rest.subspan(manifest.size());
  if (crc32c(manifest) != get_number(bytes.data() + 28, 4))
    throw DataError("checkpoint: damaged: the checksum of the manifest does not match");
  TrainingState state;
  ManifestReader reader(manifest);
  read_sections(reader, state);
  for (std::vector<SavedArray>* const arrays : array_lists(state)) {
    const std::size_t count = reader.size(1);
    for (std::size_t i = 0; i < count; ++i) {
      ArrayEntry entry;
      reader(entry);
      arrays->push_back(take_array(std::move(entry), data));
    }
  }
  reader.expect_end();
  if (!data.empty())
    throw DataError(concat({"checkpoint: damaged: ", data.size(), " bytes belong to no array"}));
  return state;
}

}  // namespace detail

LOCKSTEP_INLINE EncodedCheckpoint::EncodedCheckpoint(const TrainingState& state)
    : head_(detail::checkpoint_header), state_(state) {
  using namespace detail;
  std::vector<std::byte> manifest;
  std::uint64_t data_size = 0;
  ManifestWriter writer(manifest);
  write_sections(writer, state);
  for (const std::vector<SavedArray>* const arrays : array_lists(state)) {
    writer(static_cast<std::uint64_t>(arrays->size()));
    for (const SavedArray& array : *arrays) {
      writer(array);
      data_size += array.bytes.size();
    }
  }
  std::memcpy(head_.data(), checkpoint_magic.data(), checkpoint_magic.size());
  put_number(head_.data() + 8, checkpoint_format_version, 4);
  put_number(head_.data() + 12, manifest.size(), 8);
  put_number(head_.data() + 20, data_size, 8);
  put_number(head_.data() + 28, crc32c(manifest), 4);
  put_number(head_.data() + 32, crc32c(std::span(head_).first(checkpoint_header - 4)), 4);
  head_.insert(head_.end(), manifest.begin(), manifest.end());
}

LOCKSTEP_INLINE ByteParts EncodedCheckpoint::parts() const {
  ByteParts parts(head_);
  for (const std::vector<SavedArray>* const arrays : detail::array_lists(state_))
    for (const SavedArray& array : *arrays) parts.add(array.bytes);
  return parts;
}

LOCKSTEP_INLINE std::vector<std::byte> encode_checkpoint(const TrainingState& state) {
  const EncodedCheckpoint encoded(state);
  const ByteParts parts = encoded.parts();
  std::vector<std::byte> bytes;
  bytes.reserve(parts.size());
  for (const std::span<const std::byte> part : parts)
    bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

LOCKSTEP_INLINE TrainingState decode_checkpoint(std::span<const std::byte> bytes) {
  using namespace detail;
  const std::span<const std::byte> head = bytes.first(std::min(bytes.size(), checked_head));
  check_checkpoint_size(head, bytes.size(), size_limit({}));
  try {
    TrainingState state = decode_state(bytes);
    check_ranges(state);
    return state;
  } catch (const cereal::Exception& error) {
    throw DataError(std::string("checkpoint: damaged: ") + error.what());
  }
}

LOCKSTEP_INLINE HeadCheck checkpoint_check(std::optional<std::uint64_t> expected) {
  return
      [limit = detail::size_limit(expected)](std::span<const std::byte> head, std::uint64_t size) {
        detail::check_checkpoint_size(head, size, limit);
      };
}

}}  // namespace lockstep
