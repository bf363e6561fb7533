// Types of numbers that are known at run time: what moves between ranks.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What all_reduce works on.
template <class T>
concept Reducible =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int64_t>;

/// A Reducible type as a value, as in MPI and NCCL.
enum class DataType : std::uint8_t { float32, float64, int64 };

template <Reducible T>
inline constexpr DataType data_type_of = std::is_same_v<T, float>    ? DataType::float32
                                         : std::is_same_v<T, double> ? DataType::float64
                                                                     : DataType::int64;

/// Bytes of an element.
[[nodiscard]] constexpr std::size_t size_of(DataType type) noexcept {
  return type == DataType::float32 ? 4 : 8;
}

/// The name that messages use.
[[nodiscard]] constexpr const char* to_string(DataType type) noexcept {
  return type == DataType::float32 ? "float" : type == DataType::float64 ? "double" : "int64";
}

/// Calls f with a null pointer to the type: f(static_cast<float*>(nullptr)).
template <class F>
constexpr decltype(auto) visit_type(DataType type, F&& f) {
  switch (type) {
    case DataType::float32:
      return f(static_cast<float*>(nullptr));
    case DataType::float64:
      return f(static_cast<double*>(nullptr));
    case DataType::int64:
      break;
  }
  return f(static_cast<std::int64_t*>(nullptr));
}

namespace detail {
[[gnu::cold, noreturn]] inline void refuse_type(DataType has, DataType wanted) {
  throw Error(
      concat({"an array of ", to_string(has), " was taken for one of ", to_string(wanted)}));
}
}  // namespace detail

/// A span of numbers whose type is known at run time. A span of float, double or std::int64_t
/// converts to it, and it converts back to a span of the same type; for another type, that throws
/// Error. `Byte` is std::byte or const std::byte.
template <class Byte>
class BasicNumberSpan {
  template <class T>
  using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;

 public:
  constexpr BasicNumberSpan() noexcept = default;
  constexpr BasicNumberSpan(Byte* data, std::size_t size, DataType type) noexcept
      : data_(data), size_(size), type_(type) {}
  template <class T, std::size_t extent>
    requires Reducible<std::remove_const_t<T>> && (std::is_const_v<Byte> || !std::is_const_v<T>)
  BasicNumberSpan(std::span<T, extent> values) noexcept  // NOLINT(google-explicit-constructor)
      : data_(reinterpret_cast<Byte*>(values.data())),
        size_(values.size()),
        type_(data_type_of<std::remove_const_t<T>>) {}
  /// A span that may be written to is one that may be read.
  template <std::same_as<std::byte> Other>
    requires std::is_const_v<Byte>
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr BasicNumberSpan(const BasicNumberSpan<Other>& other) noexcept
      : BasicNumberSpan(other.data(), other.size(), other.type()) {}

  [[nodiscard]] constexpr Byte* data() const noexcept { return data_; }
  /// In elements.
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr std::size_t size_bytes() const noexcept { return size_ * size_of(type_); }
  [[nodiscard]] constexpr DataType type() const noexcept { return type_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] constexpr std::span<Byte> bytes() const noexcept { return {data_, size_bytes()}; }

  /// Offset and count in elements.
  [[nodiscard]] constexpr BasicNumberSpan subspan(std::size_t offset,
                                                  std::size_t count) const noexcept {
    return {data_ + offset * size_of(type_), count, type_};
  }

  template <Reducible T>
  [[nodiscard]] std::span<Like<T>> as() const {
    if (type_ != data_type_of<T>) detail::refuse_type(type_, data_type_of<T>);
    return {reinterpret_cast<Like<T>*>(data_), size_};
  }
  template <class T>
    requires Reducible<std::remove_const_t<T>> && (std::is_const_v<T> || !std::is_const_v<Byte>)
  operator std::span<T>() const {  // NOLINT(google-explicit-constructor)
    return as<std::remove_const_t<T>>();
  }

 private:
  Byte* data_ = nullptr;
  std::size_t size_ = 0;
  DataType type_ = DataType::float32;
};

using NumberSpan = BasicNumberSpan<std::byte>;
using ConstNumberSpan = BasicNumberSpan<const std::byte>;

}}  // namespace lockstep
