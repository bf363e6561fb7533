// Weights that are no numbers of T, for products and lookups in inference.
#pragma once

#include <cstddef>
#include <functional>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/product_layout.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

/// Distances, in elements, from a row of a matrix to the next, and from a feature of it to the
/// next. One of them is 1.
struct RowSteps {
  std::size_t row = 0, feature = 0;
};

/// y[row][unit] = finish(bias[unit] + sum over i of weights[i][unit] * x[row][i]).
template <class T>
struct AnyDense {
  std::size_t inputs = 0, units = 0, rows = 0;
  const T* x = nullptr;
  RowSteps x_steps;
  const T* weights = nullptr;
  const T* bias = nullptr;  ///< null: zero
  T* y = nullptr;
  RowSteps y_steps;  ///< the same one is 1 as in x_steps
  Finish<T> finish;
};

template <class T>
struct GatherRows;

/// Weights that lie in [begin, end) are of another format, which these read (see int8.hpp).
/// (So layers need no second form for them, and a program without them has none of their code.)
template <class T>
struct OtherWeights {
  const void* begin = nullptr;
  const void* end = nullptr;
  void (*multiply)(const AnyDense<T>&) = nullptr;
  void (*gather)(const GatherRows<T>&) = nullptr;

  [[nodiscard]] bool holds(const void* weights) const noexcept {
    return begin != nullptr && !std::less<>()(weights, begin) && std::less<>()(weights, end);
  }
};

/// What dense_forward, few_forward and gather_rows ask on this thread.
template <class T>
inline constinit thread_local OtherWeights<T> other_weights{};

/// While it lives, they know those.
template <class T>
class WithOtherWeights {
 public:
  explicit WithOtherWeights(const OtherWeights<T>& weights) noexcept : before_(other_weights<T>) {
    other_weights<T> = weights;
  }
  ~WithOtherWeights() { other_weights<T> = before_; }
  WithOtherWeights(const WithOtherWeights&) = delete;
  WithOtherWeights& operator=(const WithOtherWeights&) = delete;

 private:
  OtherWeights<T> before_;
};

}}}  // namespace lockstep::kernels
