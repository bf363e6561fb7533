// Samples that are spread over several files.
#pragma once

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
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/pipeline.hpp"
#include "lockstep/data/stage.hpp"
#include "lockstep/data/tensor.hpp"
#include "lockstep/data/tensor_slices.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
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

/// Maps samples to the files of a list; each worker may have some of the files.
///
/// The global number of a sample is its row, with the number of the file above bit 40.
class FileRows {
 public:
  /// Throws ConfigurationError when there are no files.
  explicit FileRows(std::size_t files);

  /// Files of this worker.
  [[nodiscard]] std::size_t count() const noexcept { return mine_.size(); }
  /// The number in the list of this worker's file i.
  [[nodiscard]] std::size_t file(std::size_t i) const noexcept { return mine_[i]; }
  /// The reverse.
  [[nodiscard]] std::size_t place_of(std::size_t file) const noexcept;
  /// Keeps a worker's files. Throws ConfigurationError when there would be none.
  void shard(int num_shards, int index);

  /// Adds the number of rows of the next file.
  void add(std::int64_t rows);
  /// Rows of all files that were added.
  [[nodiscard]] std::int64_t rows() const noexcept { return ends_.back(); }
  /// The global number of this worker's sample i.
  [[nodiscard]] std::int64_t number(std::int64_t i) const;
  [[nodiscard]] static std::size_t file_of(std::int64_t number) noexcept;
  [[nodiscard]] static std::int64_t row_of(std::int64_t number) noexcept;

 private:
  std::vector<std::size_t> mine_;
  std::vector<std::int64_t> ends_;  ///< samples up to and with each file
};

/// Goes through the samples of a batch file by file.
class FileByFile {
 public:
  /// `numbers` must stay until the end.
  void begin(std::span<const std::int64_t> numbers);
  /// Goes to the next file; false at the end.
  bool next();
  [[nodiscard]] std::size_t file() const noexcept { return file_; }
  /// Rows of the file, and where they belong in the batch.
  [[nodiscard]] std::span<const std::int64_t> rows() const noexcept;
  [[nodiscard]] const std::size_t* places() const noexcept { return order_.data() + begin_; }

 private:
  std::span<const std::int64_t> numbers_;
  std::vector<std::size_t> order_;
  std::vector<std::int64_t> rows_;
  std::size_t begin_ = 0, end_ = 0, file_ = 0;
};

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
/// need one file, size() all of them.
template <class Reader>
class FileSource {
  static_assert(
      requires(Reader& reader, const std::string& path) { detail::file_contents(reader(path)); },
      "lockstep: the function of from_files(paths, reader) must be callable as reader(const "
      "std::string& path) and return a Tensor, a std::pair of Tensors (samples and targets) or a "
      "Source, no pipeline: batch, map and shuffle what from_files returns");
  using Contents =
      decltype(detail::file_contents(std::declval<Reader&>()(std::declval<const std::string&>())));

 public:
  /// Throws ConfigurationError when there are no paths.
  FileSource(std::vector<std::string> paths, Reader reader)
      : list_(paths.size()),
        cache_(std::make_shared<detail::FileCache<Reader, Contents>>(std::move(paths),
                                                                     std::move(reader))) {}

  [[nodiscard]] std::int64_t num_files() const noexcept {
    return static_cast<std::int64_t>(list_.count());
  }

  void shard_files(int num_shards, int index) {
    list_.shard(num_shards, index);
    files_.clear();
  }

  [[nodiscard]] std::int64_t size() const {
    load(list_.count());
    return list_.rows();
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
    description.add({"from_files(", list_.count(), ")"});
  }
  [[nodiscard]] std::string sample_name(std::int64_t i) const {
    return concat({"sample ", detail::FileRows::row_of(i), " of ",
                   cache_->path(detail::FileRows::file_of(i))});
  }

  [[nodiscard]] std::int64_t index(std::int64_t i) const {
    load(list_.count());
    return list_.number(i);
  }

  template <class T>
  void read(std::span<const std::int64_t> indices, TensorView<T> x, TensorView<T> y) {
    load(list_.count());
    // Each file delivers its samples at once, so they are read in the order of files and then put
    // in their places.
    for (by_file_.begin(indices); by_file_.next();) {
      const std::span<const std::int64_t> rows = by_file_.rows();
      const std::size_t* const places = by_file_.places();
      const TensorView<T> from_x = samples_.template view<T>(rows.size(), x.features());
      const TensorView<T> from_y = targets_.template view<T>(rows.size(), y.features());
      files_[list_.place_of(by_file_.file())].read(rows, from_x, from_y);
      for (std::size_t f = 0; f < x.features(); ++f)
        for (std::size_t i = 0; i < rows.size(); ++i) x(places[i], f) = from_x(i, f);
      for (std::size_t f = 0; f < y.features(); ++f)
        for (std::size_t i = 0; i < rows.size(); ++i) y(places[i], f) = from_y(i, f);
    }
  }

 private:
  /// Loads the first `count` files.
  void load(std::size_t count) const {
    while (files_.size() < count) {
      const std::size_t number = list_.file(files_.size());
      Contents next = cache_->load(number);
      if (!files_.empty())
        detail::check_same_shapes(
            {cache_->path(list_.file(0)), shape_of(files_.front()), files_.front().target_size()},
            {cache_->path(number), shape_of(next), next.target_size()});
      const auto rows = static_cast<std::int64_t>(next.size());
      files_.push_back(std::move(next));
      list_.add(rows);
    }
  }

  static std::vector<std::size_t> shape_of(const Contents& contents) {
    if constexpr (requires { contents.sample_shape(); })
      return contents.sample_shape();
    else
      return {contents.sample_size()};
  }

  // Files are loaded on demand, also by functions that only ask.
  mutable detail::FileRows list_;
  std::shared_ptr<detail::FileCache<Reader, Contents>> cache_;
  mutable std::vector<Contents> files_;
  detail::FileByFile by_file_;
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
/// Use: `from_files({"a.npy", "b.npy"}, [](const std::string& path) { return
/// NpySource(NpyArray(path)); })`. Keras: `Dataset.list_files(...).interleave(...)`.
template <class Reader>
[[nodiscard]] auto from_files(std::vector<std::string> paths, Reader reader) {
  return from_source(FileSource<Reader>(std::move(paths), std::move(reader)));
}

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/files.ipp"
#endif
