// ManifestWriter: the manifest of a checkpoint, written by cereal.
#pragma once

#include <cereal/archives/portable_binary.hpp>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <streambuf>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/state.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

/// Writes numbers, texts, lists, records and arrays one after the other.
class ManifestWriter {
 public:
  explicit ManifestWriter(std::vector<std::byte>& bytes)
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
  /// What ManifestReader reads as an ArrayEntry: all of an array but its elements.
  void operator()(const SavedArray& array) {
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
