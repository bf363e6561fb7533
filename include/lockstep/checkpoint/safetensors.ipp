#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/checkpoint/safetensors.hpp"
#include "lockstep/checkpoint/saved_array.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/half.hpp"
#include "lockstep/core/json.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

// as the format's own library has it
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;
inline constexpr std::string_view safetensors_metadata = "__metadata__";

[[noreturn, gnu::cold]] LOCKSTEP_INLINE void refuse_safetensors(std::string_view why) {
  throw DataError(concat({"safetensors: ", why}));
}

/// What the header says about an array.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
};

/// Receives the header's JSON, and accepts what the format has and nothing else: an object of
/// objects whose values are texts or lists of numbers.
class SafetensorsHeader final : public JsonEvents {
 public:
  [[nodiscard]] std::vector<SafetensorsEntry> take_entries() { return std::move(entries_); }

  void begin_object() override {
    if (depth_ == 2 || list_ != nullptr) unexpected("an object");
    ++depth_;
  }
  void end_object() override {
    if (--depth_ == 1 && !in_metadata_) {
      const SafetensorsEntry& entry = entries_.back();
      for (const std::string_view needed : {"dtype", "shape", "data_offsets"})
        if (!fields_.contains(needed))
          refuse_safetensors(concat({"array ", in_quotes(entry.name), " has no ", needed}));
      if (entry.offsets.size() != 2)
        refuse_safetensors(concat({"array ", in_quotes(entry.name), " has ", entry.offsets.size(),
                                   " data_offsets, expected begin and end"}));
    }
  }
  void key(std::string name) override {
    if (depth_ == 1) {
      if (!names_.insert(name).second)
        refuse_safetensors(concat({in_quotes(name), " stands twice in the header"}));
      in_metadata_ = name == safetensors_metadata;
      if (!in_metadata_)
        entries_.push_back({.name = name, .dtype = {}, .shape = {}, .offsets = {}});
      fields_.clear();
    } else {
      if (!fields_.insert(name).second)
        refuse_safetensors(concat({in_quotes(name), " stands twice in one object"}));
      if (!in_metadata_ && name != "dtype" && name != "shape" && name != "data_offsets")
        refuse_safetensors(concat({"array ", in_quotes(entries_.back().name),
                                   " has the unknown field ", in_quotes(name)}));
    }
    key_ = std::move(name);
  }
  void begin_array() override {
    if (depth_ != 2 || list_ != nullptr || in_metadata_ || key_ == "dtype") unexpected("a list");
    list_ = key_ == "shape" ? &entries_.back().shape : &entries_.back().offsets;
  }
  void end_array() override { list_ = nullptr; }
  void value(JsonScalar value) override {
    static constexpr std::string_view kinds[] = {
        "null",  "a truth value", "a negative number", "a number", "a number that is not whole",
        "a text"};
    auto* const text = std::get_if<std::string>(&value);
    const auto* const number = std::get_if<std::uint64_t>(&value);
    if (text != nullptr && depth_ == 2 && list_ == nullptr && (in_metadata_ || key_ == "dtype")) {
      if (!in_metadata_) entries_.back().dtype = std::move(*text);
    } else if (number != nullptr && list_ != nullptr) {
      if (list_->size() == most_extents)
        refuse_safetensors(concat({"array ", in_quotes(entries_.back().name),
                                   ": a list has more than ", most_extents, " numbers"}));
      list_->push_back(*number);
    } else {
      unexpected(kinds[value.index()]);
    }
  }

 private:
  [[noreturn, gnu::cold]] void unexpected(std::string_view what) const {
    refuse_safetensors(concat({"unexpected ", what, " in the header at ", in_quotes(key_)}));
  }

  std::vector<SafetensorsEntry> entries_;
  std::set<std::string, std::less<>> names_, fields_;
  std::string key_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::vector<std::uint64_t>* list_ = nullptr;  // of the last entry
};

struct SafetensorsType {
  std::string_view dtype;
  std::size_t size;
  const char* scalar;                        ///< in memory
  float (*convert)(std::uint16_t) noexcept;  ///< null: as it is
};

inline constexpr SafetensorsType safetensors_types[] = {{"F32", 4, "float32", nullptr},
                                                        {"F64", 8, "float64", nullptr},
                                                        {"F16", 2, "float32", &Float16::decode},
                                                        {"BF16", 2, "float32", &Bfloat16::decode}};

/// Null for a type that is left out.
LOCKSTEP_INLINE const SafetensorsType* safetensors_type(const SafetensorsEntry& entry,
                                                        bool leave_out_others) {
  for (const SafetensorsType& type : safetensors_types)
    if (type.dtype == entry.dtype) return &type;
  if (leave_out_others) return nullptr;
  refuse_safetensors(concat({"array ", in_quotes(entry.name), " has dtype ", in_quotes(entry.dtype),
                             ", expected F32, F64, F16 or BF16"}));
}

LOCKSTEP_INLINE void check_safetensors_head(std::span<const std::byte> head, std::uint64_t size) {
  if (head.size() < 8)
    refuse_safetensors(concat({"these ", size, " bytes are no safetensors file"}));
  // (A safetensors file may begin like anything, as it begins with a number.)
  const auto note = [&] {
    return format_note({reinterpret_cast<const char*>(head.data()), head.size()});
  };
  const std::uint64_t header_size = get_number(head.data(), 8);
  if (header_size > safetensors_header_limit || header_size > size - 8)
    refuse_safetensors(
        concat({"the header is said to have ", header_size, " bytes; the file has ", size,
                ", and at most ", safetensors_header_limit, " are read", note()}));
  if (header_size == 0 || head[8] != std::byte{'{'})
    refuse_safetensors(concat({"the header does not begin with '{'", note()}));
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<std::byte> encode_safetensors(std::span<const SavedArray> arrays) {
  std::string header = "{";
  std::uint64_t size = 0;
  for (const SavedArray& array : arrays) {
    header += header.size() > 1 ? "," : "";
    header += concat({detail::json_text(array.name), ":{\"dtype\":\"",
                      detail::scalar_size(array.scalar) == 4 ? "F32" : "F64", "\",\"shape\":["});
    for (std::size_t i = 0; i < array.extents.size(); ++i)
      header += concat({i > 0 ? "," : "", array.extents[i]});
    header += concat({"],\"data_offsets\":[", size, ",", size + array.bytes.size(), "]}"});
    size += array.bytes.size();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the elements are then aligned

  std::vector<std::byte> bytes;
  bytes.reserve(8 + header.size() + static_cast<std::size_t>(size));
  bytes.resize(8);
  detail::put_number(bytes.data(), header.size(), 8);
  const auto text = std::as_bytes(std::span(header));
  bytes.insert(bytes.end(), text.begin(), text.end());
  for (const SavedArray& array : arrays)
    bytes.insert(bytes.end(), array.bytes.begin(), array.bytes.end());
  return bytes;
}

namespace detail {

LOCKSTEP_INLINE std::vector<SavedArray> decode_safetensors(std::span<const std::byte> bytes,
                                                           bool leave_out_others) {
  check_safetensors_head(bytes, bytes.size());
  const std::uint64_t header_size = get_number(bytes.data(), 8);
  const std::span<const std::byte> data = bytes.subspan(8 + static_cast<std::size_t>(header_size));
  const auto* const text = reinterpret_cast<const char*>(bytes.data() + 8);
  SafetensorsHeader header;
  try {
    read_json({text, static_cast<std::size_t>(header_size)}, header);
  } catch (const JsonError& error) {
    refuse_safetensors(concat({"the header is no JSON: ", error.what()}));
  }

  std::vector<SafetensorsEntry> entries = header.take_entries();
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offsets, a.name) < std::tie(b.offsets, b.name);
  });
  std::vector<SavedArray> arrays;
  std::uint64_t at = 0;  // up to here the data belong to arrays
  for (SafetensorsEntry& entry : entries) {
    const SafetensorsType* const type = safetensors_type(entry, leave_out_others);
    const auto [begin, end] = std::pair(entry.offsets[0], entry.offsets[1]);
    if (begin != at || end < begin || end > data.size())
      refuse_safetensors(
          concat({"array ", in_quotes(entry.name), " is at bytes ", begin, " to ", end,
                  ", expected a begin at ", at, " and an end up to ", data.size()}));
    at = end;
    if (type == nullptr) continue;
    if (array_size(entry.shape, type->size) != end - begin)
      refuse_safetensors(concat({"array ", in_quotes(entry.name), " ", shape_text(entry.shape),
                                 " of ", entry.dtype, " cannot have ", end - begin, " bytes"}));
    const auto elements =
        data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    SavedArray& array = arrays.emplace_back(SavedArray{
        .name = std::move(entry.name), .scalar = type->scalar, .extents = std::move(entry.shape)});
    if (type->convert != nullptr)
      array.bytes = widen(elements, type->convert);
    else
      array.bytes.assign(elements.begin(), elements.end());
  }
  if (at != data.size())
    refuse_safetensors(
        concat({data.size() - at, " bytes at the end belong to no array: the file is damaged"}));
  return arrays;
}

}  // namespace detail

LOCKSTEP_INLINE std::vector<SavedArray> decode_safetensors(std::span<const std::byte> bytes) {
  return detail::decode_safetensors(bytes, false);
}
LOCKSTEP_INLINE std::vector<SavedArray> decode_safetensors_numbers(
    std::span<const std::byte> bytes) {
  return detail::decode_safetensors(bytes, true);
}

}}  // namespace lockstep
