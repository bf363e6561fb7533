// Any pipeline of samples behind one type.
#pragma once

#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/data/any_stage.hpp"
#include "lockstep/data/pipeline.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// Pipelines of samples behind one type, for lists of them. Every pipeline that is not batched
/// converts to it.
using AnyPipeline = Pipeline<AnyStage>;

namespace detail {

[[nodiscard]] inline std::vector<AnyStage> stages_of(const std::vector<AnyPipeline>& pipelines) {
  std::vector<AnyStage> stages;
  stages.reserve(pipelines.size());
  for (const AnyPipeline& pipeline : pipelines) stages.push_back(pipeline.stage());
  return stages;
}

}  // namespace detail

}  // namespace lockstep::inline LOCKSTEP_ABI
