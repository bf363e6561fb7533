// A dataset of global batches, as one rank sees it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/tensor_view.hpp"
#include "lockstep/data/concepts.hpp"
#include "lockstep/data/sharding.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// A dataset of global batches, as one rank sees it. With R ranks in W workers:
/// - data: the rank takes the positions p of each global batch with p % R == rank; row i of its
///   part is position i * R + rank. All ranks have the same number of parts, some perhaps with 0
///   samples.
/// - file: the worker's files, in batches of 1/W of the global batch, of which the replica takes
///   every local_replicas-th sample. A worker may end earlier than others.
/// - off: every worker sees each global batch, divided into W consecutive parts (the first ones may
///   be larger by one), one after the other; of each the replica takes every local_replicas-th
///   sample.
template <Dataset D>
class DistributedDataset {
 public:
  /// `policy` replaces the dataset's own (predict needs data). Throws ConfigurationError when file
  /// is wanted and there are fewer files than workers.
  DistributedDataset(D dataset, DistributionContext context,
                     std::optional<AutoShardPolicy> policy = std::nullopt)
      : dataset_(std::move(dataset)), context_(context) {
    check_shard(context.num_workers, context.worker);
    check_shard(context.local_replicas, context.local_replica);
    std::int64_t num_files = 0;
    if constexpr (has_files) num_files = dataset_.num_files();
    if (!policy) policy = own_policy();
    detail::ShardDecision decision =
        detail::decide_shard_policy(*policy, num_files, context.num_workers);
    policy_ = decision.policy;
    policy_text_ = std::move(decision.reason);
    if constexpr (has_files)
      if (policy_ == AutoShardPolicy::file)
        dataset_.shard_files(context.num_workers, context.worker);
    if (policy_ == AutoShardPolicy::off) parts_ = context.num_workers;
    part_ = parts_;
  }

  /// What was decided: data, file or off.
  [[nodiscard]] AutoShardPolicy policy() const noexcept { return policy_; }
  /// The decision and its reason, for the log: "each worker reads its share of the files (...)".
  [[nodiscard]] const std::string& policy_text() const noexcept { return policy_text_; }
  [[nodiscard]] const DistributionContext& context() const noexcept { return context_; }

  [[nodiscard]] std::size_t sample_size() const { return dataset_.sample_size(); }
  [[nodiscard]] std::size_t target_size() const { return dataset_.target_size(); }
  [[nodiscard]] std::size_t weight_size() const { return detail::weight_size_of(dataset_); }
  /// The sample of this number, for messages. May be called while another thread reads.
  [[nodiscard]] std::string sample_name(std::int64_t i) const { return dataset_.sample_name(i); }
  /// How many batches may be read ahead.
  [[nodiscard]] std::size_t prefetch_size() const {
    if constexpr (requires { dataset_.prefetch_size(); })
      return static_cast<std::size_t>(dataset_.prefetch_size());
    else
      return 0;
  }

  /// Parts that this rank has in one pass, or infinite_cardinality, or unknown_cardinality.
  [[nodiscard]] std::int64_t cardinality() const {
    const auto batches = static_cast<std::int64_t>(dataset_.cardinality());
    return batches < 0 ? batches : batches * parts_;
  }

  void begin(Iteration iteration) {
    ahead_.reset();
    dataset_.begin(iteration);
    batches_ = static_cast<std::int64_t>(dataset_.cardinality());
    leave_batch();
  }

  /// Goes to this rank's part of the next batch, which may have 0 samples. False when this rank's
  /// data have ended.
  bool next() {
    if (part_ + 1 < parts_) {
      ++part_;
    } else {
      batch_size_ = static_cast<std::size_t>(dataset_.next());
      has_ended_ = batch_size_ == 0;
      part_ = has_ended_ ? parts_ : 0;
    }
    select();
    return part_ < parts_;
  }

  /// Whether next() would be true. Reads no data and leaves the current part as it is.
  [[nodiscard]] bool has_next() {
    if (part_ + 1 < parts_) return true;
    if (has_ended_) return false;  // whatever its cardinality has promised
    if (batches_ == infinite_cardinality) return true;
    if (batches_ >= 0) return static_cast<std::int64_t>(dataset_.position()) < batches_;
    return look_ahead();
  }

  /// Samples in this rank's part.
  [[nodiscard]] std::size_t samples() const noexcept { return positions_.size(); }
  /// Their positions in the batch, ascending.
  [[nodiscard]] std::span<const std::size_t> positions() const noexcept {
    return {positions_.data(), positions_.size()};
  }
  /// Their numbers in the source.
  [[nodiscard]] std::span<const std::int64_t> sample_indices() const noexcept {
    return {indices_.data(), indices_.size()};
  }
  /// Samples in the whole batch of which this is a part.
  [[nodiscard]] std::size_t batch_size() const noexcept { return batch_size_; }

  /// Writes this rank's samples to the rows of x and y, which have samples() rows. y may be
  /// empty().
  template <class T>
  void read(TensorView<T> x, TensorView<T> y) {
    dataset_.read(positions(), x, y);
  }

  /// Parts consumed since begin.
  [[nodiscard]] std::int64_t position() const {
    const auto batches = static_cast<std::int64_t>(dataset_.position());
    return part_ < parts_ ? (batches - 1) * parts_ + part_ + 1 : batches * parts_;
  }

  /// Goes to where next() delivers the part after `position` parts.
  void seek(std::int64_t position) {
    ahead_.reset();
    dataset_.seek(position / parts_);
    leave_batch();
    for (std::int64_t part = 0; part < position % parts_; ++part) next();
    positions_.clear();
    indices_.clear();
  }

 private:
  static constexpr bool has_files = requires(D& dataset, const D& same, int n) {
    { same.num_files() } -> std::convertible_to<std::int64_t>;
    dataset.shard_files(n, n);
  };

  [[nodiscard]] AutoShardPolicy own_policy() const {
    if constexpr (requires {
                    { dataset_.auto_shard_policy() } -> std::convertible_to<AutoShardPolicy>;
                  })
      return dataset_.auto_shard_policy();
    else
      return AutoShardPolicy::automatic;
  }

  void leave_batch() {
    has_ended_ = false;
    batch_size_ = 0;
    part_ = parts_;
    select();
  }

  void select() {
    positions_.clear();
    indices_.clear();
    if (part_ == parts_) return;
    const bool data = policy_ == AutoShardPolicy::data;
    const auto stride =
        static_cast<std::size_t>(data ? context_.num_ranks() : context_.local_replicas);
    const auto offset = static_cast<std::size_t>(data ? context_.rank() : context_.local_replica);
    const auto parts = static_cast<std::size_t>(parts_);
    const auto part = static_cast<std::size_t>(part_);
    const std::size_t quotient = batch_size_ / parts;
    const std::size_t remainder = batch_size_ % parts;
    const std::size_t begin = part * quotient + std::min(part, remainder);
    const std::size_t end = begin + quotient + (part < remainder ? 1 : 0);
    const std::span<const std::int64_t> indices = dataset_.sample_indices();
    for (std::size_t p = begin + offset; p < end; p += stride) {
      positions_.push_back(p);
      indices_.push_back(indices[p]);
    }
  }

  /// For a dataset that does not know its length: a copy runs ahead of it.
  bool look_ahead() {
    if (!ahead_) {
      ahead_.emplace(dataset_);
      ahead_has_batch_ = static_cast<std::size_t>(ahead_->next()) > 0;
    }
    while (ahead_has_batch_ && static_cast<std::int64_t>(ahead_->position()) <=
                                   static_cast<std::int64_t>(dataset_.position()))
      ahead_has_batch_ = static_cast<std::size_t>(ahead_->next()) > 0;
    return ahead_has_batch_;
  }

  D dataset_;
  DistributionContext context_;
  AutoShardPolicy policy_ = AutoShardPolicy::data;
  std::string policy_text_;
  std::int64_t batches_ = unknown_cardinality;
  std::size_t batch_size_ = 0;
  bool has_ended_ = false;  ///< next() of the dataset has found no batch
  std::int64_t parts_ = 1;  ///< of each batch, taken one after the other
  std::int64_t part_ = 1;   ///< the current one; parts_ when there is none
  std::vector<std::size_t> positions_;
  std::vector<std::int64_t> indices_;
  std::optional<D> ahead_;
  bool ahead_has_batch_ = false;
};

}}  // namespace lockstep
