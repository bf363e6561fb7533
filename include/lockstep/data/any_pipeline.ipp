#pragma once

#include "lockstep/data/any_pipeline.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

LOCKSTEP_INLINE std::vector<AnyStage> stages_of(const std::vector<AnyPipeline>& pipelines) {
  std::vector<AnyStage> stages;
  stages.reserve(pipelines.size());
  for (const AnyPipeline& pipeline : pipelines) stages.push_back(pipeline.stage());
  return stages;
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
