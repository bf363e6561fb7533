// Which Updater a replica has.
#pragma once

#include <memory>
#include <string_view>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/step/updater.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// The one place that decides. The same route on all ranks.
template <class T>
[[nodiscard]] std::unique_ptr<Updater<T>> choose_updater(const Parts<T>& parts);

/// Throws ConfigurationError for a call that makes single steps, if ranks meet after rounds of
/// them.
template <class T>
void refuse_rounds(std::string_view call, const Variables<T>& variables) {
  if (variables.is_in_rounds())
    throw ConfigurationError(
        concat({call, ": this model is compiled with ", variables.synchronization().description(),
                ", whose rounds are those of fit: call fit, or compile it without"}));
}

/// Whether each rank can update a share of the parameters for all ranks: they share memory, each
/// has parameters to itself, and the optimizer has no slots and no averages, which would have to be
/// given to all as well, and does not update whole variables or clip by a norm, for which all
/// gradients must be known first, as for a loss scale. No variable has a constraint, since other
/// ranks may still read the new values when this one would change them. Parameters are then in
/// memory of the collective.
/// The same on all ranks.
template <class T>
[[nodiscard]] bool can_update_for_all(const Program<T>& program, AnyReplica& replica) {
  if (!replica.collective().can().share || replica.local_size() != 1 ||
      program.layout().slots != 0 || program.device() != nullptr || program.layout().loss_scale)
    return false;
  const UpdateRules rules = program.update_rules();
  return !rules.clipping.is_by_norm() && !rules.averaging.is_on && !rules.whole_variables &&
         Constraints<T>(program.layout().variables).empty();
}

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/step/updaters/choose_updater.ipp"
#endif
