// The penalties of a model's variables, and their gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/penalty.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What the Regularizers of variables add. The loss and the gradient of a step are sums over rows,
/// which are divided at the end by the rows of all ranks. So each rank adds the penalty times its
/// own rows: in the mean it counts once, however the rows are spread. The gradient is added before
/// the reduction, so that all routes of an update, and clipping by norms, see it. Used by one
/// thread.
template <class T>
class Regularization {
 public:
  explicit Regularization(std::span<const Variable> variables) {
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (!variables[i].regularizer.is_none()) penalties_.push_back({i, variables[i].regularizer});
  }

  [[nodiscard]] bool empty() const noexcept { return penalties_.empty(); }

  /// The sum of all penalties.
  [[nodiscard]] double penalty(const Arena<T>& parameters) const {
    double sum = 0;
    for (const Penalty& penalty : penalties_) {
      const std::span<const T> values = parameters.slices()[penalty.variable];
      sum += kernels::penalty(penalty.regularizer, values.size(), values.data());
    }
    return sum;
  }

  /// The next gradients are those of a step with this many rows on this rank.
  void begin_step(double rows) noexcept {
    rows_ = rows;
    done_ = 0;
  }

  /// The first `count` gradients of the arena are otherwise final: adds to those that have not been
  /// told of before in this step.
  void add_gradients(const Arena<T>& parameters, const Arena<T>& gradients, std::size_t count) {
    if (rows_ > 0)
      for (const Penalty& penalty : penalties_) {
        const std::span<const T> values = parameters.slices()[penalty.variable];
        const std::span<T> slice = gradients.slices()[penalty.variable];
        const auto first = static_cast<std::size_t>(slice.data() - gradients.values().data());
        const std::size_t begin = std::clamp(done_, first, first + slice.size()) - first;
        const std::size_t end = std::clamp(count, first, first + slice.size()) - first;
        if (begin < end)
          kernels::add_penalty_gradient(penalty.regularizer, rows_, end - begin,
                                        values.data() + begin, slice.data() + begin);
      }
    done_ = std::max(done_, count);
  }

 private:
  struct Penalty {
    std::size_t variable = 0;
    Regularizer regularizer;
  };

  std::vector<Penalty> penalties_;
  double rows_ = 0;
  std::size_t done_ = 0;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
