#pragma once

#include <algorithm>
#include <utility>

#include "lockstep/core/error.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/files.hpp"
#include "lockstep/data/sharding.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void check_same_shapes(const FileShapes& first, const FileShapes& next) {
  if (is_same_shape(first.sample, next.sample) && first.targets == next.targets) return;
  const auto text = [](const FileShapes& shapes) {
    return concat({shapes.path, " has samples of ", shape_text(shapes.sample),
                   shapes.targets > 0 ? concat({" with targets of (", shapes.targets, ")"})
                                      : " without targets"});
  };
  throw DataError(concat({"from_files: the files differ: ", text(next), ", ", text(first)}));
}

inline constexpr int row_bits = 40;
inline constexpr std::int64_t row_mask = (std::int64_t{1} << row_bits) - 1;

LOCKSTEP_INLINE FileRows::FileRows(std::size_t files) {
  if (files == 0) throw ConfigurationError("from_files: the list of files is empty");
  mine_.resize(files);
  for (std::size_t i = 0; i < files; ++i) mine_[i] = i;
}

LOCKSTEP_INLINE std::size_t FileRows::place_of(std::size_t file) const noexcept {
  return static_cast<std::size_t>(std::lower_bound(mine_.begin(), mine_.end(), file) -
                                  mine_.begin());
}

LOCKSTEP_INLINE void FileRows::shard(int num_shards, int index) {
  check_shard(num_shards, index);
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < mine_.size(); ++i)
    if (shard_of(static_cast<std::int64_t>(i), num_shards) == index) kept.push_back(mine_[i]);
  if (kept.empty())
    throw ConfigurationError(concat(
        {"from_files: ", mine_.size(), " files cannot be divided among ", num_shards, " workers"}));
  mine_ = std::move(kept);
  ends_.clear();
}

LOCKSTEP_INLINE void FileRows::add(std::int64_t rows) {
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + rows);
}

LOCKSTEP_INLINE std::int64_t FileRows::number(std::int64_t i) const {
  const auto file =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
  const std::int64_t begin = file == 0 ? 0 : ends_[file - 1];
  return static_cast<std::int64_t>(mine_[file]) << row_bits | (i - begin);
}

LOCKSTEP_INLINE std::size_t FileRows::file_of(std::int64_t number) noexcept {
  return static_cast<std::size_t>(number >> row_bits);
}
LOCKSTEP_INLINE std::int64_t FileRows::row_of(std::int64_t number) noexcept {
  return number & row_mask;
}

LOCKSTEP_INLINE void FileByFile::begin(std::span<const std::int64_t> numbers) {
  numbers_ = numbers;
  begin_ = end_ = 0;
  order_.resize(numbers.size());
  for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
  std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return numbers[a] != numbers[b] ? numbers[a] < numbers[b] : a < b;
  });
}

LOCKSTEP_INLINE bool FileByFile::next() {
  begin_ = end_;
  if (begin_ == order_.size()) return false;
  file_ = FileRows::file_of(numbers_[order_[begin_]]);
  rows_.clear();
  for (; end_ < order_.size() && FileRows::file_of(numbers_[order_[end_]]) == file_; ++end_)
    rows_.push_back(FileRows::row_of(numbers_[order_[end_]]));
  return true;
}

LOCKSTEP_INLINE std::span<const std::int64_t> FileByFile::rows() const noexcept { return rows_; }

}}}  // namespace lockstep::detail
