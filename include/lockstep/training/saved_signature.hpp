// Whether a saved training state belongs to this program.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// How a program takes a saved state that is not quite its own.
struct RestoreRules {
  bool allow_changes = false;  ///< of the numbers among the optimizer's options, and what it clips
  std::string_view remedy = "resume with the same program, or start afresh";
};

/// What a saved state has of another program, and is taken all the same.
struct SignatureDifferences {
  bool in_learning_rate = false;  ///< as it was given; the state has the one that was in force
  std::string in_options{};       ///< those of the optimizer that were allowed, as text
};

/// Compares the signature of a saved state (Compiled::signature) with this program's. Throws
/// ConfigurationError naming the first difference that the rules do not allow.
[[nodiscard]] SignatureDifferences check_signature(std::string_view saved, std::string_view mine,
                                                   const RestoreRules& rules = {});

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/training/saved_signature.ipp"
#endif
