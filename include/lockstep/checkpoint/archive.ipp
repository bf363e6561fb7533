#pragma once

#include <algorithm>
#include <array>
#include <cereal/archives/portable_binary.hpp>
#include <cstdint>
#include <cstring>
#include <istream>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/checkpoint/size_limit.hpp"
#include "lockstep/checkpoint/state_ranges.hpp"
#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// Collects what cereal writes.
class ByteSink final : public std::streambuf {
 public:
  explicit ByteSink(std::vector<std::byte>& bytes) : bytes_(bytes) {}

 private:
  std::streamsize xsputn(const char* data, std::streamsize size) override {
    const auto* const first = reinterpret_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
    return size;
  }
  int_type overflow(int_type c) override {
    bytes_.push_back(static_cast<std::byte>(c));
    return c;
  }

  std::vector<std::byte>& bytes_;
};

/// Lets cereal read from memory.
class ByteSource final : public std::streambuf {
 public:
  explicit ByteSource(std::span<const std::byte> bytes) {
    char* const first = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
    setg(first, first, first + bytes.size());
  }
  [[nodiscard]] std::size_t remaining() const noexcept { return static_cast<std::size_t>(egptr() - gptr()); }
};

/// What a manifest says about an array.
struct ArrayRecord {
  std::string name;
  std::string scalar;
  std::vector<std::uint64_t> extents;
  std::uint64_t size = 0;  ///< in bytes
  std::uint32_t crc = 0;
};

// cereal's own containers take memory for whatever size a file claims. Here every size is compared with the bytes that are left
// before anything is allocated, and lists of lists count at least one byte for each element.

class CheckpointWriter {
 public:
  explicit CheckpointWriter(std::vector<std::byte>& bytes)
      : sink_(bytes),
        stream_(&sink_),
        archive_(stream_, cereal::PortableBinaryOutputArchive::Options::LittleEndian()) {}

  void operator()(const std::string& text) { sequence(text); }
  template <class E>
  void operator()(const std::vector<E>& values) {
    if constexpr (std::is_arithmetic_v<E> || std::is_same_v<E, std::byte>) {
      sequence(values);
    } else {
      archive_(static_cast<std::uint64_t>(values.size()));
      for (const E& value : values) (*this)(value);
    }
  }
  template <class N>
    requires std::is_arithmetic_v<N>
  void operator()(N number) {
    archive_(number);
  }
  void operator()(const SavedArray& array) {  // as ArrayRecord
    (*this)(array.name);
    (*this)(array.scalar);
    (*this)(array.extents);
    archive_(static_cast<std::uint64_t>(array.bytes.size()));
    archive_(crc32c(array.bytes));
  }
  void operator()(const State& state) {
    archive_(static_cast<std::uint64_t>(state.values().size()));
    for (const auto& [name, value] : state.values()) {
      (*this)(name);
      archive_(static_cast<std::uint8_t>(value.index()));
      std::visit([this](const auto& held) { (*this)(held); }, value);
    }
  }

 private:
  template <class C>
  void sequence(const C& values) {
    using E = typename C::value_type;
    archive_(static_cast<std::uint64_t>(values.size()));
    if constexpr (sizeof(E) == 1)
      archive_(cereal::binary_data(const_cast<E*>(values.data()), values.size()));
    else
      for (const E& value : values) archive_(value);
  }

  ByteSink sink_;
  std::ostream stream_;
  cereal::PortableBinaryOutputArchive archive_;
};

class CheckpointReader {
 public:
  explicit CheckpointReader(std::span<const std::byte> bytes) : source_(bytes), stream_(&source_), archive_(stream_) {}

  /// A number of elements of at least `element` bytes each, which must still be there.
  std::size_t size(std::size_t element) {
    std::uint64_t count = 0;
    archive_(count);
    if (count > source_.remaining() / element)
      throw DataError(concat(
          {"checkpoint: damaged: ", count, " elements are announced where ", source_.remaining(), " bytes are left"}));
    return static_cast<std::size_t>(count);
  }

  /// Throws DataError when something is left.
  void expect_end() const {
    if (source_.remaining() != 0)
      throw DataError(concat({"checkpoint: damaged: ", source_.remaining(), " bytes too many"}));
  }

  void operator()(std::string& text) { sequence(text); }
  template <class E>
  void operator()(std::vector<E>& values) {
    if constexpr (std::is_arithmetic_v<E> || std::is_same_v<E, std::byte>) {
      sequence(values);
    } else {
      const std::size_t count = size(1);
      for (std::size_t i = 0; i < count; ++i) (*this)(values.emplace_back());
    }
  }
  template <class N>
    requires std::is_arithmetic_v<N>
  void operator()(N& number) {
    archive_(number);
  }
  void operator()(ArrayRecord& record) {
    (*this)(record.name);
    (*this)(record.scalar);
    (*this)(record.extents);
    archive_(record.size);
    archive_(record.crc);
  }
  void operator()(State& state) {
    const std::size_t count = size(1);
    for (std::size_t i = 0; i < count; ++i) {
      std::string name;
      (*this)(name);
      std::uint8_t type = 0;
      archive_(type);
      put<0>(state, name, type);
    }
  }

 private:
  template <std::size_t I>
  void put(State& state, const std::string& name, std::uint8_t type) {
    if constexpr (I < std::variant_size_v<State::Value>) {
      if (type != I) return put<I + 1>(state, name, type);
      std::variant_alternative_t<I, State::Value> value{};
      (*this)(value);
      state.put(name, std::move(value));
    } else {
      throw DataError(concat({"checkpoint: entry '", name, "' has the unknown type ", type}));
    }
  }

  template <class C>
  void sequence(C& values) {
    using E = typename C::value_type;
    values.resize(size(sizeof(E)));
    if constexpr (sizeof(E) == 1)
      archive_(cereal::binary_data(values.data(), values.size()));
    else
      for (E& value : values) archive_(value);
  }

  ByteSource source_;
  std::istream stream_;
  cereal::PortableBinaryInputArchive archive_;
};

/// The fields of a state before its arrays, in the order of the file.
template <class Archive, class TrainingStateType>
void each_field(Archive& archive, TrainingStateType& state) {
  archive(state.scalar);
  archive(state.signature);
  archive(state.iterations);
  archive(state.learning_rate);
  archive(state.seed);
  archive(state.epoch);
  archive(state.step);
  archive(state.data_iteration);
  archive(state.data_position);
  archive(state.world_size);
  archive(state.running);
  archive(state.callbacks);
}

/// The lists of arrays, in the order of the file.
template <class TrainingStateType>
auto array_lists(TrainingStateType& state) {
  return std::array{&state.parameters, &state.state, &state.slots};
}

inline constexpr std::array<char, 8> checkpoint_magic{'L', 'O', 'C', 'K', 'S', 'T', 'E', 'P'};
inline constexpr std::size_t checkpoint_header = 8 + 4 + 8 + 8 + 4 + 4;  // see archive.hpp
inline constexpr std::size_t checkpoint_header_1 = 8 + 4 + 8 + 4;        // magic, version, payload size, its CRC-32C

[[noreturn, gnu::cold]] LOCKSTEP_INLINE void refuse_size(std::string_view what, std::uint64_t expected,
                                                         std::uint64_t got) {
  throw DataError(concat(
      {"checkpoint: expected ", expected, " bytes of ", what, ", got ", got, ": the file is cut off or has grown"}));
}

/// Throws DataError unless an array of these extents has `size` bytes.
LOCKSTEP_INLINE void check_array_size(std::string_view name, std::string_view scalar,
                                      std::span<const std::uint64_t> extents, std::uint64_t size) {
  if (array_size(extents, scalar_size(scalar)) != size)
    throw DataError(concat(
        {"checkpoint: array '", name, "' ", shape_text(extents), " of ", scalar, " cannot have ", size, " bytes"}));
}

/// The format version of a file of `size` bytes that begins with `head`. Throws DataError unless
/// this library can read it.
LOCKSTEP_INLINE std::uint64_t checkpoint_version(std::span<const std::byte> head, std::uint64_t size) {
  if (head.size() < 12 || std::memcmp(head.data(), checkpoint_magic.data(), checkpoint_magic.size()) != 0)
    throw DataError(concat({"checkpoint: these ", size, " bytes are no lockstep checkpoint"}));
  const std::uint64_t version = get_number(head.data() + 8, 4);
  if (version < 1 || version > checkpoint_format_version)
    throw DataError(concat({"checkpoint: format version ", version, ", this library reads 1 to ",
                            checkpoint_format_version, ": use a newer lockstep"}));
  return version;
}

/// Throws DataError unless a part of the file has the size that the header says, and one that a
/// model's state may have.
LOCKSTEP_INLINE void check_part(std::string_view what, std::uint64_t announced, std::uint64_t there,
                                std::uint64_t limit) {
  if (announced != there) refuse_size(what, announced, there);
  if (announced > limit)
    throw DataError(concat({"checkpoint: it has ", announced, " bytes of ", what, ", and for this model at most ",
                            limit, " are read: it belongs to another model"}));
}

/// Throws DataError unless a file of `size` bytes has the sizes that its header, in `head`, says.
LOCKSTEP_INLINE void check_checkpoint_size(std::span<const std::byte> head, std::uint64_t size, std::uint64_t limit) {
  const bool is_first = checkpoint_version(head, size) == 1;
  const std::size_t header = is_first ? checkpoint_header_1 : checkpoint_header;
  if (head.size() < header) refuse_size("header", header, head.size());
  const std::uint64_t rest = size - header;
  if (is_first) return check_part("state", get_number(head.data() + 12, 8), rest, limit);
  if (crc32c(head.first(header - 4)) != get_number(head.data() + header - 4, 4))
    throw DataError("checkpoint: damaged: the checksum of the header does not match");
  const std::uint64_t manifest = get_number(head.data() + 12, 8), data = get_number(head.data() + 20, 8);
  if (manifest > rest) refuse_size("manifest", manifest, rest);
  check_part("manifest", manifest, manifest, limit);
  check_part("data", data, rest - manifest, limit);
}

/// Format 1: one payload with one checksum, in which the elements of each array follow its extents.
LOCKSTEP_INLINE TrainingState decode_version_1(std::span<const std::byte> bytes) {
  const std::span<const std::byte> payload = bytes.subspan(checkpoint_header_1);
  if (crc32c(payload) != get_number(bytes.data() + 20, 4))
    throw DataError("checkpoint: damaged: the checksum does not match");
  TrainingState state;
  CheckpointReader reader(payload);
  each_field(reader, state);
  for (std::vector<SavedArray>* const arrays : array_lists(state)) {
    const std::size_t count = reader.size(1);
    for (std::size_t i = 0; i < count; ++i) {
      SavedArray& array = arrays->emplace_back(SavedArray{.name = {}, .scalar = state.scalar});
      reader(array.name);
      reader(array.extents);
      reader(array.bytes);
      check_array_size(array.name, array.scalar, array.extents, array.bytes.size());
    }
  }
  reader.expect_end();
  return state;
}

/// An array by its record, from the front of `data`, which moves on.
LOCKSTEP_INLINE SavedArray take_array(ArrayRecord record, std::span<const std::byte>& data) {
  check_array_size(record.name, record.scalar, record.extents, record.size);
  if (record.size > data.size())
    throw DataError(concat({"checkpoint: damaged: array '", record.name, "' has ", record.size, " bytes where ",
                            data.size(), " are left"}));
  const std::span<const std::byte> bytes = data.first(static_cast<std::size_t>(record.size));
  data = data.subspan(bytes.size());
  if (crc32c(bytes) != record.crc)
    throw DataError(concat({"checkpoint: damaged: the checksum of array '", record.name, "' does not match"}));
  return {.name = std::move(record.name),
          .scalar = std::move(record.scalar),
          .extents = std::move(record.extents),
          .bytes = {bytes.begin(), bytes.end()}};
}

LOCKSTEP_INLINE TrainingState decode_version_2(std::span<const std::byte> bytes) {
  const std::span<const std::byte> rest = bytes.subspan(checkpoint_header);
  const std::span<const std::byte> manifest = rest.first(static_cast<std::size_t>(get_number(bytes.data() + 12, 8)));
  std::span<const std::byte> data = rest.subspan(manifest.size());
  if (crc32c(manifest) != get_number(bytes.data() + 28, 4))
    throw DataError("checkpoint: damaged: the checksum of the manifest does not match");
  TrainingState state;
  CheckpointReader reader(manifest);
  each_field(reader, state);
  for (std::vector<SavedArray>* const arrays : array_lists(state)) {
    const std::size_t count = reader.size(1);
    for (std::size_t i = 0; i < count; ++i) {
      ArrayRecord record;
      reader(record);
      arrays->push_back(take_array(std::move(record), data));
    }
  }
  reader.expect_end();
  if (!data.empty()) throw DataError(concat({"checkpoint: damaged: ", data.size(), " bytes belong to no array"}));
  return state;
}

}  // namespace detail

LOCKSTEP_INLINE EncodedCheckpoint::EncodedCheckpoint(const TrainingState& state)
    : head_(detail::checkpoint_header), state_(state) {
  using namespace detail;
  std::vector<std::byte> manifest;
  std::uint64_t data_size = 0;
  CheckpointWriter writer(manifest);
  each_field(writer, state);
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
  for (const std::span<const std::byte> part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

LOCKSTEP_INLINE TrainingState decode_checkpoint(std::span<const std::byte> bytes) {
  using namespace detail;
  const std::span<const std::byte> head = bytes.first(std::min(bytes.size(), checked_head));
  check_checkpoint_size(head, bytes.size(), size_limit({}));
  try {
    TrainingState state =
        checkpoint_version(head, bytes.size()) == 1 ? decode_version_1(bytes) : decode_version_2(bytes);
    check_ranges(state);
    return state;
  } catch (const cereal::Exception& error) {
    throw DataError(std::string("checkpoint: damaged: ") + error.what());
  }
}

LOCKSTEP_INLINE HeadCheck checkpoint_check(std::optional<std::uint64_t> expected) {
  return [limit = detail::size_limit(expected)](std::span<const std::byte> head, std::uint64_t size) {
    detail::check_checkpoint_size(head, size, limit);
  };
}

}  // namespace lockstep::inline LOCKSTEP_ABI
