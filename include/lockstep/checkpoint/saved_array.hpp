// SavedArray: one array as files keep it. NamedArray: as a model has it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Converts 16-bit numbers to floats, both as bytes.
inline std::vector<std::byte> widen(std::span<const std::byte> bytes,
                                    float (*convert)(std::uint16_t) noexcept) {
  std::vector<std::byte> wide(bytes.size() * 2);
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    std::uint16_t number = 0;
    std::memcpy(&number, bytes.data() + i, 2);
    const float value = convert(number);
    std::memcpy(wide.data() + 2 * i, &value, 4);
  }
  return wide;
}

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct Variable;  // core/variable.hpp

/// What an array is, and its elements in canonical layout (row-major, the last extent fastest), as
/// little-endian bytes.
struct SavedArray {
  std::string name;                ///< "dense_1/kernel"
  std::string scalar = "float32";  ///< or "float64"
  std::vector<std::uint64_t> extents = {};
  std::vector<std::byte> bytes = {};

  friend bool operator==(const SavedArray&, const SavedArray&) = default;
};

namespace detail {

/// A variable of a model, and its values in one replica.
template <class T>
struct NamedArray {
  std::string name;
  const Variable* variable = nullptr;
  std::span<T> values;
};

static_assert(std::endian::native == std::endian::little,
              "lockstep: files are little-endian, and so must the machine be");

template <class T>
constexpr const char* scalar_name() {
  static_assert(
      std::is_same_v<T, float> || std::is_same_v<T, double>,
      "lockstep: the scalar type of a model is float or double: compile<Net, float>(...)");
  return std::is_same_v<T, float> ? "float32" : "float64";
}

/// How many extents the readers of other programs' files take: as many as an array of NumPy may
/// have.
inline constexpr std::size_t most_extents = 64;

/// Bytes of one element. Throws DataError for a type that is neither float32 nor float64.
[[nodiscard]] std::size_t scalar_size(std::string_view scalar);

/// Bytes of an array with elements of `element` bytes; nothing when the number does not fit in 64
/// bits.
[[nodiscard]] std::optional<std::uint64_t> array_size(std::span<const std::uint64_t> extents,
                                                      std::size_t element);

}  // namespace detail
}}  // namespace lockstep

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline std::size_t scalar_size(std::string_view scalar) {
  if (scalar == scalar_name<float>()) return sizeof(float);
  if (scalar == scalar_name<double>()) return sizeof(double);
  throw DataError(
      concat({"unknown scalar type ", in_quotes(scalar), ", expected float32 or float64"}));
}

inline std::optional<std::uint64_t> array_size(std::span<const std::uint64_t> extents,
                                               std::size_t element) {
  std::uint64_t size = element;
  bool overflow = false, empty = false;
  for (const std::uint64_t extent : extents) {
    empty = empty || extent == 0;
    overflow = overflow || __builtin_mul_overflow(size, extent, &size);
  }
  if (empty) return 0;
  return overflow ? std::nullopt : std::optional(size);
}

}}}  // namespace lockstep::detail
