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

[[nodiscard]] std::vector<AnyStage> stages_of(const std::vector<AnyPipeline>& pipelines);

}  // namespace detail

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/data/any_pipeline.ipp"
#endif
