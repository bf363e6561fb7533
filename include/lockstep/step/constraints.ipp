#pragma once

#include "lockstep/step/constraints.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE void check_variable_options(std::span<const Variable> variables,
                                            std::span<const std::string> names) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Regularizer& penalty = variables[i].regularizer;
    if (!(penalty.l1 >= 0) || !(penalty.l2 >= 0))
      throw ConfigurationError(
          concat({"the penalty of ", names[i], " has l1=", number_text(penalty.l1),
                  " and l2=", number_text(penalty.l2), "; expected numbers of at least 0"}));
    const Constraint& c = variables[i].constraint;
    if (c.kind != Constraint::Kind::norm) continue;
    if (c.axes == 0 || c.axis + c.axes > variables[i].rank)
      throw ConfigurationError(concat(
          {"the constraint of ", names[i], " takes norms over ", c.axes, " dimensions from number ",
           c.axis, " on, and the variable has ", variables[i].rank, ": set .axis and .axes"}));
    if (!(c.minimum >= 0) || !(c.maximum >= c.minimum) || !(c.rate > 0) || !(c.rate <= 1))
      throw ConfigurationError(
          concat({"the constraint of ", names[i], " has norms from ", number_text(c.minimum),
                  " to ", number_text(c.maximum), " and the rate ", number_text(c.rate),
                  "; expected 0 <= minimum <= maximum and a rate in (0, 1]"}));
  }
}

LOCKSTEP_INLINE std::string describe_variable_options(std::span<const Variable> variables,
                                                      std::span<const std::string> names) {
  std::string text;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Regularizer& penalty = variables[i].regularizer;
    if (!penalty.is_none())
      text += concat({"\npenalty of ", names[i], ": ",
                      describe("L1L2", {{"l1", penalty.l1}, {"l2", penalty.l2}})});
    const Constraint& constraint = variables[i].constraint;
    if (constraint.kind == Constraint::Kind::non_negative)
      text += concat({"\nconstraint of ", names[i], ": NonNeg"});
    else if (constraint.kind == Constraint::Kind::norm)
      text +=
          concat({"\nconstraint of ", names[i], ": ",
                  describe("MinMaxNorm", {{"min_value", constraint.minimum},
                                          {"max_value", constraint.maximum},
                                          {"rate", constraint.rate},
                                          {"axis", static_cast<std::int64_t>(constraint.axis)},
                                          {"axes", static_cast<std::int64_t>(constraint.axes)}})});
  }
  return text;
}

}}}  // namespace lockstep::detail
