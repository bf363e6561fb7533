// Batches, with padding too, and batches taken apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Joins `size` samples to a batch. The last batch may be smaller; with `drop_remainder` it is then
/// left out.
template <class Upstream>
class Batch : public Transform<Upstream> {
  static_assert(std::is_same_v<typename Upstream::item_type, Element>,
                "lockstep: a batch of batches");
  using Transform<Upstream>::upstream_;

 public:
  using item_type = ElementBatch;

  /// Throws ConfigurationError when size is below 1.
  Batch(Upstream upstream, std::int64_t size, bool drop_remainder)
      : Transform<Upstream>(std::move(upstream)), size_(size), drop_remainder_(drop_remainder) {
    if (size < 1)
      throw ConfigurationError(concat({"batch: the batch size must be at least 1, got ", size}));
  }

  bool next(ElementBatch& batch) {
    batch.clear();
    Element element;
    for (std::int64_t i = 0; i < size_ && upstream_.next(element); ++i) batch.push_back(element);
    if (drop_remainder_ && static_cast<std::int64_t>(batch.size()) < size_) batch.clear();
    return batch.size() > 0;
  }

  std::int64_t advance(std::int64_t n) {
    const std::int64_t most =
        std::numeric_limits<std::int64_t>::max() / 2;  // leaves room for sums upstream
    return batches_of(upstream_.advance(n > most / size_ ? most : n * size_));
  }

  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t samples = upstream_.cardinality();
    return samples < 0 ? samples : batches_of(samples);
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add({"batch(", size_, drop_remainder_ ? ", drop_remainder)" : ")"});
    description.batch_size = size_;
    description.drops_remainder = drop_remainder_;
  }

  /// From here on this copy delivers a worker's part: batches of size / num_shards samples (the
  /// first size % num_shards workers have one more) from its own files. Throws ConfigurationError
  /// when a worker would get no samples.
  void shard_files(int num_shards, int index) {
    if (size_ < num_shards)
      throw ConfigurationError(concat({"batch: a global batch of ", size_,
                                       " samples cannot be divided among ", num_shards,
                                       " workers with AutoShardPolicy::file; make the batch larger "
                                       "or use AutoShardPolicy::data"}));
    upstream_.shard_files(num_shards, index);
    size_ = size_ / num_shards + (index < size_ % num_shards ? 1 : 0);
  }

 private:
  [[nodiscard]] std::int64_t batches_of(std::int64_t samples) const {
    return samples / size_ + (!drop_remainder_ && samples % size_ != 0 ? 1 : 0);
  }

  std::int64_t size_;
  bool drop_remainder_;
};

/// For padded_batch.
struct PaddedBatchOptions {
  std::size_t padded_size = 0;  ///< elements of a sample; 0: as many as it has
  double padding_value = 0;     ///< behind a sample's own elements
  bool drop_remainder = false;
};

/// Batch, of samples that are padded at their end to the size of the model's input. Targets stay.
template <class Upstream>
class PaddedBatch : public Transform<Batch<Upstream>> {
  using Transform<Batch<Upstream>>::upstream_;

 public:
  /// Throws ConfigurationError when size is below 1.
  PaddedBatch(Upstream upstream, std::int64_t size, PaddedBatchOptions options)
      : Transform<Batch<Upstream>>(
            Batch<Upstream>(std::move(upstream), size, options.drop_remainder)),
        options_(options) {}

  /// Throws DataError when samples are larger than padded_size.
  [[nodiscard]] std::size_t sample_size() const {
    const std::size_t own = upstream_.sample_size();
    if (options_.padded_size == 0) return own;
    if (own > options_.padded_size)
      throw DataError(
          concat({"padded_batch: samples have ", own, " elements, more than padded_size, ",
                  options_.padded_size, "; cut them with a map, or make padded_size larger"}));
    return options_.padded_size;
  }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    return sample_size() == upstream_.sample_size() ? upstream_.sample_shape()
                                                    : std::vector{sample_size()};
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add({"padded to ", options_.padded_size, " with ", options_.padding_value});
  }

  template <class T>
  void read(ElementSpan samples, TensorView<T> x, TensorView<T> y) {
    const std::size_t own = upstream_.sample_size();
    upstream_.read(samples, TensorView<T>(x.data(), x.samples(), own, x.stride()), y);
    for (std::size_t f = own; f < x.features(); ++f)
      for (std::size_t i = 0; i < x.samples(); ++i)
        x(i, f) = static_cast<T>(options_.padding_value);
  }

 private:
  PaddedBatchOptions options_;
};

/// The samples of batches, one after the other.
template <class Upstream>
class Unbatch : public Transform<Upstream> {
  using Transform<Upstream>::upstream_;

 public:
  using item_type = Element;

  explicit Unbatch(Upstream upstream) : Transform<Upstream>(std::move(upstream)) {}

  void begin(Pass pass) {
    upstream_.begin(pass);
    batch_.clear();
    used_ = 0;
  }

  bool next(Element& element) {
    if (used_ == batch_.size() && !next_batch()) return false;
    element.index = batch_.indices[used_];
    element.pass = batch_.passes[used_];
    element.parts.clear();
    if (!batch_.parts.empty()) element.parts = std::move(batch_.parts[used_]);
    ++used_;
    return true;
  }

  std::int64_t advance(std::int64_t n) {
    std::int64_t moved = 0;
    while (moved < n && (used_ < batch_.size() || next_batch())) {
      const std::int64_t step =
          std::min(n - moved, static_cast<std::int64_t>(batch_.size() - used_));
      used_ += static_cast<std::size_t>(step);
      moved += step;
    }
    return moved;
  }

  /// Unknown unless it is 0 or infinite: batches may differ in size.
  [[nodiscard]] std::int64_t cardinality() const {
    const std::int64_t batches = upstream_.cardinality();
    return batches > 0 ? unknown_cardinality : batches;
  }

  void describe(PipelineDescription& description) const {
    upstream_.describe(description);
    description.add({"unbatch"});
  }

 private:
  bool next_batch() {
    used_ = 0;
    if (upstream_.next(batch_)) return true;
    batch_.clear();
    return false;
  }

  ElementBatch batch_;
  std::size_t used_ = 0;
};

}}  // namespace lockstep
