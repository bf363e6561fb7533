// The wire format of Protocol Buffers, as much of it as files of other programs need.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Writes one message, field by field (protobuf.dev/programming-guides/encoding). A field that has
/// its default value is left out by the caller, as proto3 has it.
class ProtoWriter {
 public:
  ProtoWriter& varint(std::uint32_t field, std::uint64_t value) {
    key(field, 0);
    put_varint(value);
    return *this;
  }
  ProtoWriter& number(std::uint32_t field, double value) {
    key(field, 1);
    return fixed<8>(std::bit_cast<std::uint64_t>(value));
  }
  ProtoWriter& number(std::uint32_t field, float value) {
    key(field, 5);
    return fixed<4>(std::bit_cast<std::uint32_t>(value));
  }
  ProtoWriter& text(std::uint32_t field, std::string_view bytes) {
    key(field, 2);
    put_varint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  ProtoWriter& message(std::uint32_t field, const ProtoWriter& inner) {
    return text(field, inner.bytes_);
  }

  /// The fields of another writer.
  ProtoWriter& append(const ProtoWriter& fields) {
    bytes_ += fields.bytes_;
    return *this;
  }

  /// What stands in a packed field: no key.
  ProtoWriter& put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  /// The same, in little-endian order.
  template <std::size_t Size>
  ProtoWriter& fixed(std::uint64_t value) {
    std::byte bytes[Size];
    put_number<Size>(bytes, value);
    bytes_.append(reinterpret_cast<const char*>(bytes), Size);
    return *this;
  }

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  void key(std::uint32_t field, std::uint32_t wire_type) {
    put_varint(std::uint64_t{field} << 3 | wire_type);
  }

  std::string bytes_;
};

/// Reads one message, field by field:
///   for (ProtoReader message(bytes); message.next();)
///     if (message.field() == 1) f(message.bytes());
/// Everything throws DataError when the bytes are no such message; nothing is allocated.
class ProtoReader {
 public:
  explicit ProtoReader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  /// Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = take_varint();
    field_ = static_cast<std::uint32_t>(key >> 3);
    wire_type_ = static_cast<std::uint32_t>(key & 7);
    if (key >> 32 != 0 || field_ == 0) fail("a field's number is out of range");
    value_ = 0;
    bytes_ = {};
    if (wire_type_ == 0)
      value_ = take_varint();
    else if (wire_type_ == 1 || wire_type_ == 5)
      bytes_ = take(wire_type_ == 1 ? 8 : 4);
    else if (wire_type_ == 2)
      bytes_ = take(take_varint());
    else
      fail(concat({"field ", field_, " has the wire type ", wire_type_}));
    return true;
  }
  [[nodiscard]] std::uint32_t field() const noexcept { return field_; }
  /// The value, whose type must be the one that the caller expects.
  [[nodiscard]] std::uint64_t varint() const {
    expect(0, "a varint");
    return value_;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    expect(2, "bytes");
    return bytes_;
  }
  /// Calls f for each value of a repeated field of varints, which may be packed.
  template <class F>
  void each_varint(F&& f) const {
    if (wire_type_ == 0) return f(value_);
    ProtoReader packed(bytes());
    while (!packed.rest_.empty()) f(packed.take_varint());
  }
  /// The same of 32-bit floating-point numbers.
  template <class F>
  void each_float(F&& f) const {
    if (wire_type_ != 5) expect(2, "floating-point numbers");
    if (bytes_.size() % 4 != 0) fail(concat({"field ", field_, " has a part of a number"}));
    for (std::size_t i = 0; i < bytes_.size(); i += 4)
      f(std::bit_cast<float>(static_cast<std::uint32_t>(get_number<4>(bytes_.data() + i))));
  }

 private:
  [[noreturn, gnu::cold]] static void fail(std::string_view what) {
    throw DataError(concat({"the bytes are no message of Protocol Buffers: ", what}));
  }
  void expect(std::uint32_t wire_type, std::string_view what) const {
    if (wire_type_ != wire_type)
      fail(concat({"field ", field_, " has the wire type ", wire_type_, ", expected ", what}));
  }
  std::uint64_t take_varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint64_t>(take(1)[0]);
      if (shift == 63 && byte > 1) break;
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number has more than 64 bits");
  }
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > rest_.size())
      fail(concat({"they end too early: expected ", size, " more bytes, got ", rest_.size()}));
    const auto taken = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

  std::span<const std::byte> rest_;
  std::span<const std::byte> bytes_;
  std::uint64_t value_ = 0;
  std::uint32_t field_ = 0;
  std::uint32_t wire_type_ = 0;
};

}}}  // namespace lockstep::detail
