#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/sharding.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE ShardDecision decide_shard_policy(AutoShardPolicy wanted, std::int64_t num_files,
                                                  int num_workers) {
  const std::string files = concat({num_files, num_files == 1 ? " file" : " files"});
  const std::string workers = concat({num_workers, num_workers == 1 ? " worker" : " workers"});
  const auto decide = [](AutoShardPolicy policy, std::string_view reason) {
    const std::string_view what =
        policy == AutoShardPolicy::data   ? "each worker takes its part of each batch"
        : policy == AutoShardPolicy::file ? "each worker reads its share of the files"
                                          : "each worker reads its whole dataset";
    return ShardDecision{
        policy, concat({what, " (AutoShardPolicy::", to_string(policy), ", ", reason, ")"})};
  };
  switch (wanted) {
    case AutoShardPolicy::file:
      if (num_files == 0)
        throw ConfigurationError(
            concat({"AutoShardPolicy::file: the dataset has 0 files for ", workers,
                    "; make it with from_files, or use AutoShardPolicy::data"}));
      if (num_files < num_workers)
        throw ConfigurationError(
            concat({"AutoShardPolicy::file: the dataset has ", files, ", fewer than the ", workers,
                    "; write more files, or use AutoShardPolicy::data"}));
      return decide(wanted, concat({"chosen by the program: ", files, " for ", workers}));
    case AutoShardPolicy::automatic:
      if (num_workers == 1) return {AutoShardPolicy::data, "one worker reads all of it"};
      if (num_files == 0)
        return decide(AutoShardPolicy::data, "automatic: the dataset has no files");
      if (num_files < num_workers)
        return decide(AutoShardPolicy::data,
                      concat({"automatic: ", files, num_files == 1 ? " is" : " are", " fewer than ",
                              workers}));
      return decide(AutoShardPolicy::file, concat({"automatic: ", files, " for ", workers}));
    default:
      return decide(wanted, "chosen by the program");
  }
}

}}}  // namespace lockstep::detail
