// ConstantVariables: what a model for inference has of its variables.
#pragma once

#include <string>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/program.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The variables of a Program, which do not change any more.
template <class T>
struct ConstantVariables {
  /// Those of a file; `options` may be null, and then each variable must be there.
  ConstantVariables(const Program<T>& program, const std::string& path,
                    const LoadWeightsOptions* options, LoadedWeights& loaded);
  /// Copies of a trainer's present ones.
  ConstantVariables(const Program<T>& program, Trainer<T>& trainer);

  Arena<T> parameters;
  Arena<T> state;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/constant_variables.ipp"
#endif
