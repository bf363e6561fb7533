// What cannot be had together: checked when a model is compiled.
#pragma once

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/constraints.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/synchronization.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Throws ConfigurationError unless it makes sense.
inline const Synchronization& checked(const Synchronization& synchronization,
                                      const UpdateRules& rules, bool shares_updates) {
  synchronization.validate();
  if (synchronization.is_in_rounds() && shares_updates)
    throw ConfigurationError(concat(
        {"compile: ", synchronization.description(),
         " with sharded_updates: in a round each rank updates all of its own parameters; take "
         "one of the two"}));
  if (synchronization.is_in_rounds() && rules.accumulation_steps > 1)
    throw ConfigurationError(
        concat({"compile: ", synchronization.description(),
                " with gradient_accumulation_steps=", rules.accumulation_steps,
                ": in a round each rank updates in every step; use larger batches, or no rounds"}));
  return synchronization;
}

/// Throws ConfigurationError, which names it, when the optimizer or a variable asks for something
/// that servers which see ranges of the parameters cannot do.
template <class T>
void check_for_servers(const Program<T>& program, const Synchronization& synchronization) {
  const UpdateRules rules = program.update_rules();
  const bool has_constraints = !Constraints<T>(program.layout().variables).empty();
  const char* const what =
      rules.clipping.is_by_norm() ? "clipnorm and global_clipnorm need all gradients of a step"
      : rules.averaging.is_on     ? "use_ema keeps averages that workers do not see"
      : rules.accumulation_steps != 1
          ? "gradient_accumulation_steps adds gradients of several steps"
      : synchronization.is_in_rounds() ? "LocalSGD and DiLoCo update in each rank"
      : has_constraints                ? "a variable's constraint needs it whole"
      : program.device() != nullptr    ? "the model is computed by a device"
                                       : nullptr;
  if (what == nullptr) return;
  throw ConfigurationError(
      concat({"compile: ParameterServerStrategy: ", what,
              ", and each server sees a range of the parameters: leave the option out, or train "
              "with MultiWorkerMirroredStrategy"}));
}

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
