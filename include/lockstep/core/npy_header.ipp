#pragma once

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/file_format.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/npy_header.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline constexpr std::size_t npy_most_extents = 64;

LOCKSTEP_INLINE NpyHeader::NpyHeader(std::string caller, std::span<const std::byte> npy)
    : caller_(std::move(caller)) {
  const std::string_view text(reinterpret_cast<const char*>(npy.data()), npy.size());
  if (npy.size() < 12 || !text.starts_with(npy_magic))
    refuse(concat({"the entry is no .npy file", format_note(text)}));
  const auto version = static_cast<unsigned>(npy[6]);
  if (version < 1 || version > 3) refuse(concat({"expected .npy version 1 to 3, got ", version}));
  const std::size_t number_size = version == 1 ? 2 : 4, begin = 8 + number_size;
  const std::uint64_t length = get_number(npy.data() + 8, number_size);
  if (length > npy.size() - begin) refuse("the header is cut off");
  rest_ = text.substr(begin, static_cast<std::size_t>(length));
  size_ = begin + static_cast<std::size_t>(length);

  expect('{');
  std::set<std::string_view> keys;
  while (!accept('}')) {
    const std::string_view key = quoted();
    if (!keys.insert(key).second) refuse();
    expect(':');
    if (key == "descr") {
      skip_space();
      if (rest_.starts_with('[')) refuse_structured();
      descr_ = quoted();
    } else if (key == "fortran_order") {
      fortran_order_ = truth();
    } else if (key == "shape") {
      tuple();
    } else {
      refuse();
    }
    if (!accept(',')) {
      expect('}');
      break;
    }
  }
  skip_space();
  if (keys.size() != 3 || !rest_.empty()) refuse();
}

LOCKSTEP_INLINE void NpyHeader::refuse(std::string_view why) const {
  throw DataError(concat({caller_, ": ", why}));
}

LOCKSTEP_INLINE void NpyHeader::refuse_structured() const {
  refuse(concat({"it is a structured array, ", printable(rest_.substr(0, rest_.rfind(']') + 1)),
                 ": save each of its fields as a separate array, array['x']"}));
}

LOCKSTEP_INLINE void NpyHeader::skip_space() {
  rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
}

LOCKSTEP_INLINE bool NpyHeader::accept(char c) {
  skip_space();
  if (!rest_.starts_with(c)) return false;
  rest_.remove_prefix(1);
  return true;
}

LOCKSTEP_INLINE void NpyHeader::expect(char c) {
  if (!accept(c)) refuse();
}

LOCKSTEP_INLINE std::string_view NpyHeader::quoted() {
  const char quote = accept('"') ? '"' : '\'';
  if (quote == '\'') expect(quote);
  const std::size_t end = rest_.find(quote);
  if (end == std::string_view::npos) refuse();
  const std::string_view text = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return text;
}

LOCKSTEP_INLINE bool NpyHeader::truth() {
  skip_space();
  for (const std::string_view word : {"True", "False"})
    if (rest_.starts_with(word)) {
      rest_.remove_prefix(word.size());
      return word == "True";
    }
  refuse();
}

LOCKSTEP_INLINE void NpyHeader::tuple() {
  expect('(');
  while (!accept(')')) {
    skip_space();
    std::uint64_t extent = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
    if (error != std::errc()) refuse();
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (shape_.size() == npy_most_extents)
      refuse(concat({"the shape has more than ", npy_most_extents, " extents"}));
    shape_.push_back(extent);
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // as Python 2 wrote some numbers
    if (!accept(',')) {
      expect(')');
      break;
    }
  }
}

LOCKSTEP_INLINE std::string npy_type_text(std::string_view descr) {
  std::string_view kind = descr;
  const bool is_swapped = kind.starts_with('>');
  if (kind.find_first_of("<>|=") == 0) kind.remove_prefix(1);
  std::string_view bytes = kind.substr(std::min<std::size_t>(1, kind.size()));
  unsigned size = 0;
  std::from_chars(bytes.data(), bytes.data() + bytes.size(), size);
  const auto of_bits = [&](std::string_view name) { return concat({name, 8 * (size & 0xFFFFU)}); };
  std::string name;
  switch (kind.empty() ? ' ' : kind[0]) {
    case 'b':
      name = "truth values";
      break;
    case 'i':
      name = of_bits("int");
      break;
    case 'u':
      name = of_bits("uint");
      break;
    case 'f':
      name = of_bits("float");
      break;
    case 'c':
      name = of_bits("complex");
      break;
    case 'O':
      name = "objects of Python, which are pickled";
      break;
    case 'U':
    case 'S':
    case 'a':
      name = "texts";
      break;
    case 'M':
    case 'm':
      name = "times";
      break;
    case 'V':
      name = "raw bytes; of bfloat16 or another type that NumPy does not have";
      break;
    default:
      name = "a type that is not known here";
  }
  return concat({in_quotes(descr, 60), " (", name, is_swapped ? ", big-endian)" : ")"});
}

}}}  // namespace lockstep::detail
