// ManifestReader: the manifest of a checkpoint, read by cereal.
#pragma once

#include <cereal/archives/portable_binary.hpp>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <span>
#include <streambuf>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/state.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Lets cereal read from memory.
class ByteSource final : public std::streambuf {
 public:
  explicit ByteSource(std::span<const std::byte> bytes) {
    char* const first = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
    setg(first, first, first + bytes.size());
  }
  [[nodiscard]] std::size_t remaining() const noexcept {
    return static_cast<std::size_t>(egptr() - gptr());
  }
};

/// What a manifest says about an array.
struct ArrayEntry {
  std::string name;
  std::string scalar;
  std::vector<std::uint64_t> extents;
  std::uint64_t size = 0;  ///< in bytes
  std::uint32_t crc = 0;
};

/// Reads what ManifestWriter wrote. cereal's own containers take memory for whatever size a file
/// claims. Here every size is compared with the bytes that are left before anything is allocated,
/// and lists of lists count at least one byte for each element.
class ManifestReader {
 public:
  explicit ManifestReader(std::span<const std::byte> bytes)
      : source_(bytes), stream_(&source_), archive_(stream_) {}

  /// A number of elements of at least `element` bytes each, which must still be there.
  std::size_t size(std::size_t element) {
    std::uint64_t count = 0;
    archive_(count);
    if (count > source_.remaining() / element)
      throw DataError(concat({"checkpoint: damaged: ", count, " elements are announced where ",
                              source_.remaining(), " bytes are left"}));
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
  void operator()(ArrayEntry& entry) {
    (*this)(entry.name);
    (*this)(entry.scalar);
    (*this)(entry.extents);
    archive_(entry.size);
    archive_(entry.crc);
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
