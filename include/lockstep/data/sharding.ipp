#pragma once

#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/data/sharding.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE ShardDecision decide_shard_policy(AutoShardPolicy wanted, std::int64_t num_files,
                                                  int num_workers) {
  const std::string files = concat({num_files, num_files == 1 ? " file" : " files"});
  const std::string workers = concat({num_workers, num_workers == 1 ? " worker" : " workers"});
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
      return {wanted, concat({"file (chosen by the program; ", files, " for ", workers, ")"})};
    case AutoShardPolicy::automatic:
      if (num_workers == 1) return {AutoShardPolicy::data, "data (automatic: there is one worker)"};
      if (num_files == 0)
        return {AutoShardPolicy::data, "data (automatic: the dataset has no files)"};
      if (num_files < num_workers)
        return {AutoShardPolicy::data,
                concat({"data (automatic: ", files, num_files == 1 ? " is" : " are", " fewer than ",
                        workers, ")"})};
      return {AutoShardPolicy::file, concat({"file (automatic: ", files, " for ", workers, ")"})};
    default:
      return {wanted, concat({to_string(wanted), " (chosen by the program)"})};
  }
}

}}}  // namespace lockstep::detail
