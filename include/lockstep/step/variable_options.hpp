// The penalties and constraints of a model's variables: checks, and their text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/core/config.hpp"
#include "lockstep/core/describe.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/variable.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Throws ConfigurationError for penalties and constraints that make no sense.
void check_variable_options(std::span<const Variable> variables,
                            std::span<const std::string> names);

/// A line for each penalty and constraint, "\npenalty of dense/kernel: L1L2(l1=0, l2=0.01)": ranks
/// must have them in common. Models without have none.
[[nodiscard]] std::string describe_variable_options(std::span<const Variable> variables,
                                                    std::span<const std::string> names);

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/step/variable_options.ipp"
#endif
