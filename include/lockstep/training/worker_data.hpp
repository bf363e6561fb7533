// One worker's data, and what they must have in common with the other workers'.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/sharding.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A dataset as the worker at `place` uses it. With AutoShardPolicy::file it has the worker's own
/// files and never opens any other.
class WorkerData {
 public:
  /// `policy` replaces the dataset's own. Opens no file. Throws ConfigurationError when the
  /// AnyDataset is empty, and when file is wanted and there are fewer files than workers.
  WorkerData(std::string_view where, const AnyDataset& whole, const DistributionContext& place,
             std::optional<AutoShardPolicy> policy = std::nullopt);

  /// The worker's files, or all data.
  [[nodiscard]] const AnyDataset& part() const noexcept { return part_; }
  /// The number of steps in a pass over the part; or infinite_cardinality, or unknown_cardinality.
  [[nodiscard]] std::int64_t steps() const;
  /// Whether another worker may have other data, and so another number of steps in a pass.
  [[nodiscard]] bool may_differ() const noexcept {
    return place_.num_workers > 1 && policy_ != AutoShardPolicy::data;
  }

  /// "", or why a pass has no batch: what comes behind "the training data is empty".
  [[nodiscard]] std::string why_empty() const;

  /// What must be equal on all workers, a line for each thing, beginning with `what`; nothing with
  /// one worker. With the policy data these are the sizes, the pipeline and a checksum of some
  /// samples; with file, where each has its own files, the pipeline; and with off, where each
  /// may have its own data, the batch size. Reads at most 16 samples.
  [[nodiscard]] std::string signature(std::string_view what) const;

 private:
  AnyDataset part_;
  DistributionContext place_;
  AutoShardPolicy policy_;
  PipelineDescription description_;  ///< of the whole
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/worker_data.ipp"
#endif
