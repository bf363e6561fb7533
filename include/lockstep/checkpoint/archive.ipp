#pragma once

#include <array>
#include <cereal/archives/portable_binary.hpp>
#include <cstdint>
#include <cstring>
#include <istream>
#include <ostream>
#include <streambuf>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "lockstep/checkpoint/archive.hpp"
#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/error.hpp"
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
  void operator()(const SavedArray& array) {
    (*this)(array.name);
    (*this)(array.extents);
    (*this)(array.bytes);
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

  [[nodiscard]] std::size_t remaining() const noexcept { return source_.remaining(); }

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
  void operator()(SavedArray& array) {
    (*this)(array.name);
    (*this)(array.extents);
    (*this)(array.bytes);
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

  /// A number of elements of at least `element` bytes each, which must still be there.
  std::size_t size(std::size_t element) {
    std::uint64_t count = 0;
    archive_(count);
    if (count > remaining() / element)
      throw DataError(
          concat({"checkpoint: damaged: ", count, " elements are announced where ", remaining(), " bytes are left"}));
    return static_cast<std::size_t>(count);
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

/// The fields of a state, in the order of the file.
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
  archive(state.parameters);
  archive(state.state);
  archive(state.slots);
}

inline constexpr std::array<char, 8> checkpoint_magic{'L', 'O', 'C', 'K', 'S', 'T', 'E', 'P'};
inline constexpr std::size_t checkpoint_envelope = 8 + 4 + 8 + 4;  // magic, version, payload size, CRC-32C

/// Little-endian, on every machine.
inline void put_number(std::byte* to, std::uint64_t number, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<std::byte>(number >> (8 * i));
}
inline std::uint64_t get_number(const std::byte* from, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i) number |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return number;
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<std::byte> encode_checkpoint(const TrainingState& state) {
  using namespace detail;
  std::vector<std::byte> bytes(checkpoint_envelope);
  CheckpointWriter writer(bytes);
  each_field(writer, state);
  const std::span<const std::byte> payload = std::span(bytes).subspan(checkpoint_envelope);
  std::memcpy(bytes.data(), checkpoint_magic.data(), checkpoint_magic.size());
  put_number(bytes.data() + 8, checkpoint_format_version, 4);
  put_number(bytes.data() + 12, payload.size(), 8);
  put_number(bytes.data() + 20, crc32c(payload), 4);
  return bytes;
}

LOCKSTEP_INLINE TrainingState decode_checkpoint(std::span<const std::byte> bytes) {
  using namespace detail;
  if (bytes.size() < checkpoint_envelope ||
      std::memcmp(bytes.data(), checkpoint_magic.data(), checkpoint_magic.size()) != 0)
    throw DataError(concat({"checkpoint: these ", bytes.size(), " bytes are no lockstep checkpoint"}));
  const std::uint64_t version = get_number(bytes.data() + 8, 4);
  if (version == 0 || version > checkpoint_format_version)
    throw DataError(concat({"checkpoint: format version ", version, ", this library reads 1 to ",
                            checkpoint_format_version, ": use a newer lockstep"}));
  const std::span<const std::byte> payload = bytes.subspan(checkpoint_envelope);
  const std::uint64_t size = get_number(bytes.data() + 12, 8);
  if (payload.size() != size)
    throw DataError(concat({"checkpoint: expected ", size, " bytes of state, got ", payload.size(),
                            ": the file is cut off or has grown"}));
  if (crc32c(payload) != get_number(bytes.data() + 20, 4))
    throw DataError("checkpoint: damaged: the checksum does not match");
  TrainingState state;
  try {
    CheckpointReader reader(payload);
    each_field(reader, state);
    if (reader.remaining() != 0)
      throw DataError(concat({"checkpoint: damaged: ", reader.remaining(), " bytes too many"}));
  } catch (const cereal::Exception& error) {
    throw DataError(std::string("checkpoint: damaged: ") + error.what());
  }
  return state;
}

}  // namespace lockstep::inline LOCKSTEP_ABI
