// What a pipeline delivers: a pass over its batches, and what is known of them before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/description.hpp"
#include "lockstep/data/stage.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {

/// What a pipeline is asked to read, and into what.
struct ReadRequest {
  std::span<const std::size_t> positions;
  std::size_t batch = 0;  ///< samples in it
  std::size_t sample_size = 0, target_size = 0;
  std::size_t x_samples = 0, x_features = 0;
  std::size_t y_samples = 0, y_features = 0;
  bool without_targets = false;
};

/// Throws DataError when the views have other sizes, and for positions behind the batch.
void check_read(const ReadRequest& request);

/// Throws Error before the first pass, and for a negative position.
void check_seek(bool has_begun, std::int64_t position);

}  // namespace detail

/// The part of Pipeline that is a Dataset: a stage, and the batch in which a pass over it is.
/// Pipeline adds what makes new pipelines of one.
template <Stage S>
class PipelinePass {
 public:
  static constexpr bool is_batched = std::is_same_v<typename S::item_type, ElementBatch>;

  [[nodiscard]] const S& stage() const noexcept { return stage_; }
  [[nodiscard]] std::size_t sample_size() const { return stage_.sample_size(); }
  /// With the weights of a sample, which are the last elements of its target.
  [[nodiscard]] std::size_t target_size() const { return stage_.target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return detail::weight_size_of(stage_); }
  /// The extents of a sample, such as {28, 28}; a single one for flat samples and for those that a
  /// map has made.
  [[nodiscard]] std::vector<std::size_t> sample_shape() const {
    return detail::shape_of_size(stage_.sample_shape(), stage_.sample_size());
  }
  /// See PipelineDescription, SourceFingerprint and Source.
  void describe(PipelineDescription& description) const { stage_.describe(description); }
  [[nodiscard]] SourceFingerprint fingerprint() const { return stage_.fingerprint(); }
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return stage_.sample_name(i); }
  /// Samples in one pass, or batches after batch; or infinite_cardinality, or unknown_cardinality.
  [[nodiscard]] std::int64_t cardinality() const { return stage_.cardinality(); }

  /// 0 when the source has no files.
  [[nodiscard]] std::int64_t num_files() const { return stage_.num_files(); }
  /// From here on this copy is one worker's: it has its files and its part of the batch size.
  void shard_files(int num_shards, int index)
    requires is_batched
  {
    stage_.shard_files(num_shards, index);
  }

  /// Starts a pass; see Dataset.
  void begin(Iteration iteration)
    requires is_batched
  {
    pass_ = Pass::of(iteration);
    has_begun_ = true;
    restart();
  }

  /// Goes to the next batch and returns its number of samples; 0 at the end.
  std::size_t next()
    requires is_batched
  {
    if (!has_begun_) throw Error("Pipeline: next() was called before begin(iteration)");
    if (!stage_.next(current_)) {
      current_.clear();
      return 0;
    }
    ++position_;
    return current_.size();
  }

  [[nodiscard]] std::span<const std::int64_t> sample_indices() const noexcept
    requires is_batched
  {
    return ElementSpan(current_).indices;
  }

  /// Writes the samples at these positions of the current batch to the rows 0, 1, ... of x and y,
  /// and zeros to the padding. y may be empty(). Throws DataError when the views have other sizes.
  template <class T>
  void read(std::span<const std::size_t> positions, TensorView<T> x, TensorView<T> y)
    requires is_batched
  {
    detail::check_read({.positions = positions,
                        .batch = current_.size(),
                        .sample_size = sample_size(),
                        .target_size = target_size(),
                        .x_samples = x.samples(),
                        .x_features = x.features(),
                        .y_samples = y.empty() ? x.samples() : y.samples(),
                        .y_features = y.features(),
                        .without_targets = y.empty()});
    selected_.clear();
    const ElementSpan current = current_;
    for (const std::size_t p : positions)
      selected_.push_back(current.indices[p], current.passes[p], current.parts_of(p));
    stage_.read(selected_, x, y);
    x.clear_padding();
    y.clear_padding();
  }

  /// Batches consumed since begin.
  [[nodiscard]] std::int64_t position() const noexcept
    requires is_batched
  {
    return position_;
  }

  /// Goes to where next() delivers the batch after `position` batches, or to the end if there are
  /// fewer. Reads no data, and leaves out whole repetitions; a shuffle buffer has to be run
  /// through.
  void seek(std::int64_t position)
    requires is_batched
  {
    detail::check_seek(has_begun_, position);
    if (position < position_) restart();
    current_.clear();
    position_ += stage_.advance(position - position_);
  }

 protected:
  explicit PipelinePass(S stage) : stage_(std::move(stage)) {}

  S stage_;

 private:
  void restart() {
    stage_.begin(pass_);
    current_.clear();
    position_ = 0;
  }

  Pass pass_{};
  bool has_begun_ = false;
  std::int64_t position_ = 0;
  ElementBatch current_;
  ElementBatch selected_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/pipeline_pass.ipp"
#endif
