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
#include "lockstep/core/error.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The samples of a pass, in the dataset's order, as one stream that is cut into batches anew:
/// `part` / `whole` of the dataset's batch size, rounded down, but at least one sample; the last of
/// a pass may be smaller. The dataset's batch size is the one that it describes, or else the size
/// of its first batch in the pass.
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
  /// Infinite if the dataset is; else unknown until a pass was made.
  [[nodiscard]] std::int64_t cardinality() const {
    return dataset_.cardinality() == infinite_cardinality ? infinite_cardinality
                                                          : unknown_cardinality;
  }

  void begin(Iteration iteration) {
    iteration_ = iteration;
    restart();
  }
  std::size_t next() {
    if (readers_.empty()) throw Error("ResizedBatches: next() was called before begin(iteration)");
    pieces_.clear();
    indices_.clear();
    while (size_ == 0 || indices_.size() < size_) {
      if (used_ == in_front_ && !advance()) break;
      const std::size_t size = std::min(size_ - indices_.size(), in_front_ - used_);
      pieces_.push_back({.reader = front_, .from = used_, .first = indices_.size(), .size = size});
      const auto numbers = readers_[front_].sample_indices().subspan(used_, size);
      indices_.insert(indices_.end(), numbers.begin(), numbers.end());
      used_ += size;
    }
    position_ += static_cast<std::int64_t>(indices_.size());
    return indices_.size();
  }
  [[nodiscard]] std::span<const std::int64_t> sample_indices() const { return indices_; }
  /// Ascending positions.
  void read(std::span<const std::size_t> positions, TensorView<float> x, TensorView<float> y) {
    read_pieces(positions, x, y);
  }
  void read(std::span<const std::size_t> positions, TensorView<double> x, TensorView<double> y) {
    read_pieces(positions, x, y);
  }
  [[nodiscard]] std::int64_t position() const { return position_; }
  void seek(std::int64_t samples) {
    if (readers_.empty()) throw Error("ResizedBatches: seek() was called before begin(iteration)");
    if (samples < 0)
      throw Error(concat({"ResizedBatches: seek() needs at least 0 samples, got ", samples}));
    if (samples < position_) restart();
    pieces_.clear();
    indices_.clear();
    while (position_ < samples) {
      if (used_ == in_front_ && !advance()) return;
      const std::int64_t left = static_cast<std::int64_t>(in_front_ - used_);
      const std::int64_t step = std::min(left, samples - position_);
      used_ += static_cast<std::size_t>(step);
      position_ += step;
    }
  }

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
  void restart() {
    PipelineDescription description;
    dataset_.describe(description);
    size_ =
        description.batch_size > 0 ? share_of(static_cast<std::size_t>(description.batch_size)) : 0;
    readers_.assign(1, dataset_);
    readers_[0].begin(iteration_);
    front_ = in_front_ = used_ = 0;
    position_ = 0;
    pieces_.clear();
    indices_.clear();
  }
  // Goes to the next batch of the dataset; false at its end. The batches that the current one needs
  // stay where they are.
  bool advance() {
    if (is_in_use(front_)) {
      std::size_t behind = 0;
      while (behind < readers_.size() && is_in_use(behind)) ++behind;
      if (behind == readers_.size()) {
        readers_.emplace_back(readers_[front_]);
      } else {
        while (readers_[behind].position() < readers_[front_].position())
          if (readers_[behind].next() == 0) break;
      }
      front_ = behind;
    }
    in_front_ = readers_[front_].next();
    used_ = 0;
    if (size_ == 0 && in_front_ > 0) size_ = share_of(in_front_);
    return in_front_ > 0;
  }
  // A dataset may write the padding of what it is given: pieces are read apart, and put together.
  template <class T>
  void read_pieces(std::span<const std::size_t> positions, TensorView<T> x, TensorView<T> y) {
    std::size_t row = 0;
    for (const Piece& piece : pieces_) {
      wanted_.clear();
      for (std::size_t i = row; i < positions.size(); ++i) {
        if (positions[i] < piece.first || positions[i] >= piece.first + piece.size) break;
        wanted_.push_back(piece.from + positions[i] - piece.first);
      }
      if (wanted_.empty()) continue;
      AnyDataset& reader = readers_[piece.reader];
      if (wanted_.size() == positions.size()) return reader.read(wanted_, x, y);
      const TensorView<T> own_x = x_.view<T>(wanted_.size(), x.features());
      const TensorView<T> own_y =
          y.empty() ? TensorView<T>() : y_.view<T>(wanted_.size(), y.features());
      reader.read(wanted_, own_x, own_y);
      const auto copy = [&](const TensorView<T>& from, const TensorView<T>& to) {
        for (std::size_t f = 0; f < from.features(); ++f)
          std::copy_n(from.feature(f), from.samples(), to.feature(f) + row);
      };
      copy(own_x, x);
      if (!y.empty()) copy(own_y, y);
      row += wanted_.size();
    }
    if (row != positions.size())
      throw DataError(concat({"ResizedBatches: read() of position ",
                              row < positions.size() ? positions[row] : 0, " of a batch with ",
                              indices_.size(), " samples; positions must ascend"}));
  }

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
