// The penalties and constraints of a model's variables: their checks and text, and Constraints,
// which applies constraints.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/sweep.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Throws ConfigurationError for penalties and constraints that make no sense.
void check_variable_options(std::span<const Variable> variables,
                            std::span<const std::string> names);

/// A line for each penalty and constraint, "\npenalty of dense/kernel: L1L2(l1=0, l2=0.01)": ranks
/// must have them in common. Empty for models without.
[[nodiscard]] std::string describe_variable_options(std::span<const Variable> variables,
                                                    std::span<const std::string> names);

/// Applies the Constraints of variables. Equal values become equal values, on whichever thread.
/// Used by one thread.
template <class T>
class Constraints {
 public:
  explicit Constraints(std::span<const Variable> variables) : variables_(variables) {
    std::size_t norms = 0;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].constraint.kind == Constraint::Kind::none) continue;
      constrained_.push_back(i);
      norms = std::max(norms, Extents(variables[i]).inner);
    }
    norms_.resize(norms);
  }

  [[nodiscard]] bool empty() const noexcept { return constrained_.empty(); }

  /// Part `index` of `count` parts of the work. `slices`: the values of all variables.
  void apply(std::span<const std::span<T>> slices, std::size_t index = 0, std::size_t count = 1) {
    for (std::size_t i = index; i < constrained_.size(); i += count) {
      const Variable& variable = variables_[constrained_[i]];
      const std::span<T> values = slices[constrained_[i]];
      if (variable.constraint.kind == Constraint::Kind::non_negative)
        kernels::sweep(
            values.size(),
            [](auto& value) LOCKSTEP_KERNEL_LAMBDA {
              using P = std::remove_cvref_t<decltype(value)>;
              value = select(value < P(0), P(0), value);
            },
            values.data());
      else
        limit_norms(variable.constraint, Extents(variable), values.data());
    }
  }

 private:
  /// An array seen as [outer][squared][inner]: norms are taken over the one in the middle.
  struct Extents {
    std::size_t outer = 1, squared = 1, inner = 1;
    explicit Extents(const Variable& variable) {
      const std::size_t first = variable.constraint.axis, last = first + variable.constraint.axes;
      for (std::size_t i = 0; i < variable.rank; ++i)
        (i < first ? outer : i < last ? squared : inner) *= variable.extents[i];
    }
  };

  void limit_norms(const Constraint& constraint, const Extents& extents, T* values) {
    const T minimum = static_cast<T>(constraint.minimum), rate = static_cast<T>(constraint.rate);
    const T maximum = static_cast<T>(
        std::min(constraint.maximum, static_cast<double>(std::numeric_limits<T>::max())));
    for (std::size_t outer = 0; outer < extents.outer;
         ++outer, values += extents.squared * extents.inner) {
      std::fill_n(norms_.begin(), extents.inner, T(0));
      if (extents.inner == 1)
        norms_[0] = static_cast<T>(kernels::sweep_sum(
            extents.squared, [](const auto& value) LOCKSTEP_KERNEL_LAMBDA { return value * value; },
            static_cast<const T*>(values)));
      else
        for (std::size_t row = 0; row < extents.squared; ++row)
          kernels::sweep(
              extents.inner,
              [](auto& sum, const auto& value)
                  LOCKSTEP_KERNEL_LAMBDA { sum = multiply_add(value, value, sum); },
              norms_.data(), static_cast<const T*>(values + row * extents.inner));
      kernels::sweep(
          extents.inner,
          [=](auto& norm) LOCKSTEP_KERNEL_LAMBDA {
            using P = std::remove_cvref_t<decltype(norm)>;
            const P length = sqrt(norm);
            const P clipped = max(P(minimum), min(P(maximum), length));
            norm = (P(rate) * clipped + P(T(1) - rate) * length) / (P(T(1e-7)) + length);
          },
          norms_.data());
      for (std::size_t row = 0; row < extents.squared; ++row) {
        T* const first = values + row * extents.inner;
        if (extents.inner > 1)
          kernels::sweep(
              extents.inner,
              [](auto& value, const auto& factor) LOCKSTEP_KERNEL_LAMBDA { value *= factor; },
              first, static_cast<const T*>(norms_.data()));
        else
          *first *= norms_[0];
      }
    }
  }

  std::span<const Variable> variables_;
  std::vector<std::size_t> constrained_;
  std::vector<T> norms_;  ///< replaced by the factors that follow from them
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/step/constraints.ipp"
#endif
