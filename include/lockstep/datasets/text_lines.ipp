#pragma once

#include <algorithm>

#include "lockstep/datasets/text_lines.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

namespace detail {

inline std::string_view line_from(std::string_view text, std::size_t begin) {
  std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace detail

LOCKSTEP_INLINE LineFile::LineFile(const std::string& path, std::size_t skip, bool skip_empty)
    : file_(std::make_shared<const detail::MappedFile>("from_text_lines", path)) {
  const std::string_view text = file_->text();
  std::vector<std::uint64_t> begins;
  for (std::size_t begin = 0, number = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (number >= skip && !(skip_empty && detail::line_from(text, begin).empty()))
      begins.push_back(begin);
    begin = end + 1;
  }
  begins_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(begins));
}

LOCKSTEP_INLINE std::string_view LineFile::operator[](std::size_t i) const {
  return detail::line_from(file_->text(), static_cast<std::size_t>((*begins_)[i]));
}

}}  // namespace lockstep
