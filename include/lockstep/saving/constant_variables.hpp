// ConstantVariables: what a model for inference has of its variables.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/kernels/other_weights.hpp"
#include "lockstep/layers/pass.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/step/program.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The variables of a Program, which do not change any more.
template <class T>
struct ConstantVariables {
  /// Reads them from a file; with null `options`, each variable must be there.
  ConstantVariables(const Program<T>& program, const std::string& path,
                    const LoadWeightsOptions* options, LoadedWeights& loaded);
  /// Copies of a trainer's present ones.
  ConstantVariables(const Program<T>& program, Trainer<T>& trainer);

  // What layers are given.
  [[nodiscard]] Slices<T> weights() const {
    return mixed.multiply == nullptr ? parameters.slices() : Slices<T>(slices[0]);
  }
  [[nodiscard]] Slices<T> states() const {
    return mixed.multiply == nullptr ? state.slices() : Slices<T>(slices[1]);
  }

  Arena<T> parameters;
  Arena<T> state;

  // Where some are of another format, the arenas have the others.
  Buffer memory{};
  kernels::OtherWeights<T> mixed{};
  std::array<std::vector<std::span<T>>, 2> slices{};  ///< of both arenas' variables
};

/// Net in inference under T: a scalar type, a policy of training (see UnderPolicy), or one of
/// inference alone, which changes what was loaded.
template <class Net, class T>
struct InInference : UnderPolicy<Net, T> {
  using Scalar = typename UnderPolicy<Net, T>::Scalar;
  static ConstantVariables<Scalar> prepared(const Program<Scalar>&,
                                            ConstantVariables<Scalar> variables) {
    return variables;
  }
};
template <class Net, class T>
  requires requires { typename T::template Prepared<Net>; }
struct InInference<Net, T> : T::template Prepared<Net> {};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/saving/constant_variables.ipp"
#endif
