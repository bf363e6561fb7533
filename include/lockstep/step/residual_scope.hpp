// Error feedback for the reductions of steps.
#pragma once

#include <concepts>
#include <exception>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/step/parts.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// As long as it lives, what the collective rounds off a replica's gradients goes into the
/// residuals of its workspace, where it has some, and from there into the next reduction.
template <class T>
class ResidualScope {
 public:
  explicit ResidualScope(const Parts<T>& parts) : parts_(parts) { set(residuals()); }
  ResidualScope(const ResidualScope&) = delete;
  ResidualScope& operator=(const ResidualScope&) = delete;
  /// After an exception an operation may still be under way, and no other one follows.
  ~ResidualScope() {
    if (std::uncaught_exceptions() == exceptions_) set({});
  }

 private:
  [[nodiscard]] std::span<T> residuals() const { return parts_.workspace.residuals().values(); }
  void set(std::span<T> residuals) const {
    if constexpr (std::same_as<T, float>)
      if (!this->residuals().empty())
        parts_.replica.collective().keep_residuals(parts_.workspace.gradients().values(),
                                                   residuals);
  }

  const Parts<T> parts_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
