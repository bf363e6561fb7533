// Samples that are spread over several files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/scratch.hpp"
#include "lockstep/data/shard.hpp"
#include "lockstep/data/source.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/data/tensor_slices.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

template <Source S>
S file_contents(S source) {
  return source;
}
template <class X>
TensorSlices<X> file_contents(Tensor<X> x) {
  return TensorSlices<X>(std::move(x));
}
template <class X, class Y>
TensorSlices<X, Y> file_contents(std::pair<Tensor<X>, Tensor<Y>> pair) {
  return TensorSlices<X, Y>(std::move(pair.first), std::move(pair.second));
}

/// What the files of one list must have in common.
struct FileShapes {
  std::string path;
  std::vector<std::size_t> sample;
  std::size_t targets;
};

/// Throws DataError when the second file's differ from the first's.
void check_same_shapes(const FileShapes& first, const FileShapes& next);

/// The parts of a list of files that were loaded so far; shared by the copies of a dataset.
template <class Reader, class Contents>
class FileCache {
 public:
  FileCache(std::vector<std::string> paths, Reader reader)
      : paths_(std::move(paths)), reader_(std::move(reader)), loaded_(paths_.size()) {}

  [[nodiscard]] const std::string& path(std::size_t i) const { return paths_[i]; }
  [[nodiscard]] std::size_t size() const noexcept { return paths_.size(); }

  Contents load(std::size_t i) {
    const std::lock_guard lock(mutex_);
    if (!loaded_[i]) loaded_[i].emplace(file_contents(reader_(paths_[i])));
    return *loaded_[i];
  }

 private:
  std::vector<std::string> paths_;
  Reader reader_;
  std::mutex mutex_;
  std::vector<std::optional<Contents>> loaded_;
};

}  // namespace detail

/// The samples of all files, in the order of the list. With AutoShardPolicy::file, worker w reads
/// the files i with i % num_workers == w and never opens the others.
///
/// A file is loaded when it is first needed, and stays loaded. The sizes and the shape of a sample
/// need one file, size() all of them. The global number of a sample is its row, with the number of
/// the file above bit 40.
template <class Reader>
class FileSource {
  static_assert(
      requires(Reader& reader, const std::string& path) { detail::file_contents(reader(path)); },
      "lockstep: the function of from_files(paths, reader) must be callable as reader(const "
      "std::string& path) and "
      "return a Tensor, a std::pair of Tensors (samples and targets) or a Source, no pipeline: "
      "batch, map and shuffle "
      "what from_files returns");
  using Contents =
      decltype(detail::file_contents(std::declval<Reader&>()(std::declval<const std::string&>())));
  static constexpr int row_bits = 40;
  static constexpr std::int64_t row_mask = (std::int64_t{1} << row_bits) - 1;

 public:
  /// Throws ConfigurationError when there are no paths.
  FileSource(std::vector<std::string> paths, Reader reader) {
    if (paths.empty()) throw ConfigurationError("from_files: the list of files is empty");
    for (std::size_t i = 0; i < paths.size(); ++i) mine_.push_back(i);
    cache_ =
        std::make_shared<detail::FileCache<Reader, Contents>>(std::move(paths), std::move(reader));
  }

  [[nodiscard]] std::int64_t num_files() const noexcept {
    return static_cast<std::int64_t>(mine_.size());
  }

  void shard_files(int num_shards, int index) {
    check_shard(num_shards, index);
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < mine_.size(); ++i)
      if (shard_of(static_cast<std::int64_t>(i), num_shards) == index) kept.push_back(mine_[i]);
    if (kept.empty())
      throw ConfigurationError(concat({"from_files: ", mine_.size(),
                                       " files cannot be divided among ", num_shards, " workers"}));
    mine_ = std::move(kept);
    files_.clear();
    ends_.clear();
  }

  [[nodiscard]] std::int64_t size() const {
    load(mine_.size());
    return ends_.back();
  }
  [[nodiscard]] std::size_t sample_size() const {
    load(1);
    return files_.front().sample_size();
  }
  [[nodiscard]] std::size_t target_size() const {
    load(1);
    return files_.front().target_size();
  }
  [[nodiscard]] std::size_t weight_size() const {
    load(1);
    return detail::weight_size_of(files_.front());
  }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    load(1);
    return shape_of(files_.front());
  }

  void describe(PipelineDescription& description) const {
    description.add({"from_files(", mine_.size(), ")"});
  }
  [[nodiscard]] std::string sample_name(std::int64_t i) const {
    return concat(
        {"sample ", i & row_mask, " of ", cache_->path(static_cast<std::size_t>(i >> row_bits))});
  }

  [[nodiscard]] std::int64_t index(std::int64_t i) const {
    load(mine_.size());
    const auto file =
        static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
    const std::int64_t begin = file == 0 ? 0 : ends_[file - 1];
    return static_cast<std::int64_t>(mine_[file]) << row_bits | (i - begin);
  }

  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) {
    load(mine_.size());
    // Each file delivers its samples at once, so they are read in the order of files and then put
    // in their places.
    order_.clear();
    for (std::size_t i = 0; i < indices.size(); ++i) order_.push_back(i);
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return indices[a] != indices[b] ? indices[a] < indices[b] : a < b;
    });
    for (std::size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
      const std::int64_t file = indices[order_[begin]] >> row_bits;
      rows_.clear();
      for (; end < order_.size() && indices[order_[end]] >> row_bits == file; ++end)
        rows_.push_back(indices[order_[end]] & row_mask);
      const std::size_t count = end - begin;
      const TensorView<T> from_x = samples_.template view<T>(count, x.features());
      const TensorView<T> from_y = targets_.template view<T>(count, y.features());
      contents(static_cast<std::size_t>(file))
          .read(std::span<const std::int64_t>(rows_.data(), rows_.size()), from_x, from_y);
      for (std::size_t f = 0; f < x.features(); ++f)
        for (std::size_t i = 0; i < count; ++i) x(order_[begin + i], f) = from_x(i, f);
      for (std::size_t f = 0; f < y.features(); ++f)
        for (std::size_t i = 0; i < count; ++i) y(order_[begin + i], f) = from_y(i, f);
    }
  }

 private:
  /// Loads the first `count` files.
  void load(std::size_t count) const {
    while (files_.size() < count) {
      const std::size_t number = mine_[files_.size()];
      Contents next = cache_->load(number);
      if (!files_.empty())
        detail::check_same_shapes(
            {cache_->path(mine_.front()), shape_of(files_.front()), files_.front().target_size()},
            {cache_->path(number), shape_of(next), next.target_size()});
      const std::int64_t rows = static_cast<std::int64_t>(next.size());
      files_.push_back(std::move(next));
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + rows);
    }
  }

  static std::vector<std::size_t> shape_of(const Contents& contents) {
    if constexpr (requires { contents.sample_shape(); })
      return contents.sample_shape();
    else
      return {contents.sample_size()};
  }

  Contents& contents(std::size_t file) {
    return files_[static_cast<std::size_t>(std::lower_bound(mine_.begin(), mine_.end(), file) -
                                           mine_.begin())];
  }

  std::shared_ptr<detail::FileCache<Reader, Contents>> cache_;
  std::vector<std::size_t> mine_;  ///< numbers of this shard's files
  // Loaded on demand, also by functions that only ask.
  mutable std::vector<Contents> files_;
  mutable std::vector<std::int64_t> ends_;  ///< samples up to and with each file
  std::vector<std::size_t> order_;
  std::vector<std::int64_t> rows_;
  detail::Scratch samples_;
  detail::Scratch targets_;
};

/// A pipeline of the samples in several files. `reader(path)` returns what is in one of them: a
/// Source, a Tensor, or a std::pair of Tensors (samples and targets). It is called once for each
/// file that is needed.
/// @code
/// lockstep::from_files({"part-0", "part-1"}, [](const std::string& path) {
///   return std::pair(lockstep::read_idx(path + "-images.gz"),
///                    lockstep::read_idx(path + "-labels.gz"));
/// });
/// @endcode
template <class Reader>
[[nodiscard]] auto from_files(std::vector<std::string> paths, Reader reader) {
  return from_source(FileSource<Reader>(std::move(paths), std::move(reader)));
}

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/files.ipp"
#endif
