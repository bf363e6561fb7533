// A dataset's samples in batches of another size, from any sample on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The samples of a pass, in the dataset's order, as one stream that is cut into batches anew:
/// `part` / `whole` of the dataset's batch size, rounded down, but at least one sample; the last of
/// a pass may be smaller. That of the dataset is what it describes, or else that of its first batch
/// in the pass.
///
/// Unlike those of other datasets, its positions count samples, because batches of another size may
/// begin at any of them: position() are the samples consumed, and seek(n) goes to where next()
/// delivers the batch that begins with sample n. (It goes there batch by batch, without reading.)
class ResizedBatches {
 public:
  ResizedBatches(AnyDataset dataset, int part, int whole)
      : dataset_(std::move(dataset)), part_(part), whole_(whole) {}

  [[nodiscard]] std::size_t sample_size() const { return dataset_.sample_size(); }
  [[nodiscard]] std::size_t target_size() const { return dataset_.target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return dataset_.weight_size(); }
  /// Of a pass that ends, the number of batches is not known before it was made.
  [[nodiscard]] std::int64_t cardinality() const {
    return dataset_.cardinality() == infinite_cardinality ? infinite_cardinality
                                                          : unknown_cardinality;
  }

  void begin(Iteration iteration);
  std::size_t next();
  [[nodiscard]] std::span<const std::int64_t> sample_indices() const { return indices_; }
  /// Ascending positions.
  void read(std::span<const std::size_t> positions, TensorView<float> x, TensorView<float> y);
  void read(std::span<const std::size_t> positions, TensorView<double> x, TensorView<double> y);
  [[nodiscard]] std::int64_t position() const { return position_; }
  void seek(std::int64_t samples);

  [[nodiscard]] AutoShardPolicy auto_shard_policy() const { return dataset_.auto_shard_policy(); }
  [[nodiscard]] std::size_t prefetch_size() const { return dataset_.prefetch_size(); }
  [[nodiscard]] std::vector<std::size_t> sample_shape() const { return dataset_.sample_shape(); }
  [[nodiscard]] SourceFingerprint fingerprint() const { return dataset_.fingerprint(); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return dataset_.sample_name(i); }
  [[nodiscard]] std::int64_t num_files() const { return dataset_.num_files(); }

 private:
  /// Consecutive samples of the current batch that lie in one batch of the dataset.
  struct Piece {
    std::size_t reader = 0;
    std::size_t from = 0;   ///< in the dataset's batch
    std::size_t first = 0;  ///< in this one
    std::size_t size = 0;
  };

  [[nodiscard]] std::size_t share_of(std::size_t batch) const noexcept {
    return std::max<std::size_t>(
        1, batch * static_cast<std::size_t>(part_) / static_cast<std::size_t>(whole_));
  }
  [[nodiscard]] bool is_in_use(std::size_t reader) const {
    return std::ranges::any_of(pieces_, [&](const Piece& piece) { return piece.reader == reader; });
  }
  void restart();
  bool advance();
  template <class T>
  void read_pieces(std::span<const std::size_t> positions, TensorView<T> x, TensorView<T> y);

  AnyDataset dataset_;  // asked, and never in a pass
  int part_, whole_;
  Iteration iteration_;
  std::size_t size_ = 0;                 // of a batch; 0: not known yet
  std::vector<AnyDataset> readers_;      // each in its own batch, since a batch may need two
  std::size_t front_ = 0;                // the reader that has come furthest
  std::size_t in_front_ = 0, used_ = 0;  // samples of its batch, and of these used
  std::int64_t position_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::int64_t> indices_;
  std::vector<std::size_t> wanted_;
  Scratch x_, y_;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/data/resized_batches.ipp"
#endif
