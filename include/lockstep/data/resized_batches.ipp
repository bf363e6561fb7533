#pragma once

#include <algorithm>

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/resized_batches.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void ResizedBatches::begin(Iteration iteration) {
  iteration_ = iteration;
  restart();
}

LOCKSTEP_INLINE void ResizedBatches::restart() {
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

/// Goes to the next batch of the dataset; false at its end. The batches that the current one needs
/// stay where they are.
LOCKSTEP_INLINE bool ResizedBatches::advance() {
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

LOCKSTEP_INLINE std::size_t ResizedBatches::next() {
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

LOCKSTEP_INLINE void ResizedBatches::seek(std::int64_t samples) {
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

/// A dataset may write the padding of what it is given: pieces are read apart, and put together.
template <class T>
void ResizedBatches::read_pieces(std::span<const std::size_t> positions, TensorView<T> x,
                                 TensorView<T> y) {
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
    throw DataError(
        concat({"ResizedBatches: read() of position ", row < positions.size() ? positions[row] : 0,
                " of a batch with ", indices_.size(), " samples; positions must ascend"}));
}

LOCKSTEP_INLINE void ResizedBatches::read(std::span<const std::size_t> positions,
                                          TensorView<float> x, TensorView<float> y) {
  read_pieces(positions, x, y);
}
LOCKSTEP_INLINE void ResizedBatches::read(std::span<const std::size_t> positions,
                                          TensorView<double> x, TensorView<double> y) {
  read_pieces(positions, x, y);
}

}}}  // namespace lockstep::detail
