#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/sharding.hpp"
#include "lockstep/training/worker_data.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE WorkerData::WorkerData(std::string_view where, const AnyDataset& whole,
                                       const DistributionContext& place,
                                       std::optional<AutoShardPolicy> policy)
    : part_(whole), place_(place) {
  if (!whole) throw ConfigurationError(concat({where, ": this AnyDataset holds no dataset"}));
  policy_ = decide_shard_policy(policy.value_or(whole.auto_shard_policy()), whole.num_files(),
                                place.num_workers)
                .policy;
  whole.describe(description_);
  if (policy_ == AutoShardPolicy::file) part_.shard_files(place.num_workers, place.worker);
}

LOCKSTEP_INLINE std::int64_t WorkerData::steps() const {
  const std::int64_t batches = part_.cardinality();
  // With off, every worker uses a whole batch, a part of it in each step.
  return batches > 0 && policy_ == AutoShardPolicy::off ? batches * place_.num_workers : batches;
}

LOCKSTEP_INLINE std::string WorkerData::why_empty() const {
  const std::int64_t samples = description_.drops_remainder ? part_.fingerprint().samples : 0;
  if (samples == 0) return {};
  return concat({": batch(", description_.batch_size,
                 ", drop_remainder) leaves out an "
                 "incomplete batch",
                 samples > 0 ? concat({", and the source has ", samples,
                                       samples == 1 ? " sample" : " samples"})
                             : std::string(),
                 ": make the batch smaller, or keep the remainder"});
}

LOCKSTEP_INLINE std::string WorkerData::signature(std::string_view what) const {
  if (place_.num_workers == 1) return {};
  std::string lines;
  const auto add = [&](std::string_view thing, TextPiece value) {
    lines += concat({what, ", ", thing, ": ", value.view(), "\n"});
  };
  const auto count = [](std::int64_t number) {
    return number == infinite_cardinality ? std::string("without end")
           : number < 0                   ? "unknown"
                                          : concat({number});
  };
  add("sharding", to_string(policy_));
  add("global batch size",
      description_.batch_size > 0 ? concat({description_.batch_size}) : std::string("unknown"));
  if (policy_ == AutoShardPolicy::off) return lines;
  const bool is_shared = policy_ == AutoShardPolicy::data;
  const SourceFingerprint source = is_shared ? part_.fingerprint() : SourceFingerprint{};
  if (is_shared) add("samples in the source", count(source.samples));
  add("pipeline", description_.text.empty() ? std::string("a dataset of the program's own")
                                            : description_.text);
  if (!is_shared) return lines;
  add("batches in a pass", count(part_.cardinality()));
  add(concat({"checksum of ", source.checked, " samples"}), hex_text(source.checksum, 8));
  return lines;
}

}}}  // namespace lockstep::detail
