// What all recurrences share: where their numbers lie, and their products.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/column_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/transpose.hpp"

// A recurrence runs step by step, over all samples at once. Its arrays are [feature][step][sample]
// (see time_major.hpp): all steps of a feature are one row, so that whatever does not depend on the
// step before (products with inputs, all gradients of weights) is one product over all of them.
// Arrays of states have one step more than there are: the state before the first, which is zero.

namespace lockstep::inline LOCKSTEP_ABI::kernels {

/// What a recurrence does with the inputs of its gates: value(x), and gradient(dy, y), which is dy
/// times the derivative where the value is y (0 where dy is 0). The values of one that `is_bounded`
/// are finite in padding, too.
struct LogisticGate {
  static constexpr bool is_bounded = true;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return P(1) / (P(1) + exp(-x));
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return dy * (y * (P(1) - y));
  }
};
struct TanhGate {
  static constexpr bool is_bounded = true;
  template <class P>
  LOCKSTEP_KERNEL static P value(const P& x) {
    return tanh(x);
  }
  template <class P>
  LOCKSTEP_KERNEL static P gradient(const P& dy, const P& y) {
    return dy * (P(1) - y * y);
  }
  /// onto + gradient(dy, y), rounded once less.
  template <class P>
  LOCKSTEP_KERNEL static P add_gradient(const P& dy, const P& y, const P& onto) {
    return multiply_add(dy, P(1) - y * y, onto);
  }
};

template <class A>
inline constexpr bool is_bounded_gate = requires { requires A::is_bounded; };
template <class... A>
inline constexpr bool are_bounded = (is_bounded_gate<A> && ...);

struct RecurrenceSize {
  std::size_t inputs = 0;
  std::size_t units = 0;
  std::size_t gates = 0;  ///< features of `gates` for each unit
  std::size_t samples = 0;
  std::size_t steps = 0;
  bool reverse = false;  ///< from the last step to the first

  [[nodiscard]] constexpr std::size_t batch() const noexcept { return padded_columns(samples); }
  [[nodiscard]] constexpr std::size_t columns() const noexcept { return steps * batch(); }
  /// From row to row of each array. An odd number of 16 elements: with a power of two, the rows of
  /// one step would all fall into one set of the caches.
  [[nodiscard]] constexpr std::size_t stride() const noexcept {
    return ((steps + 1) * batch() / 16 | 1) * 16;
  }

  /// The step that is number `i` in the order of computation.
  [[nodiscard]] constexpr std::size_t step(std::size_t i) const noexcept {
    return reverse ? steps - 1 - i : i;
  }
  /// Where its columns begin: in arrays of states, the state before it and its own.
  [[nodiscard]] constexpr std::size_t column(std::size_t i) const noexcept {
    return step(i) * batch();
  }
  [[nodiscard]] constexpr std::size_t before(std::size_t i) const noexcept {
    return column(i) + first_before();
  }
  [[nodiscard]] constexpr std::size_t after(std::size_t i) const noexcept {
    return column(i) + first_after();
  }
  /// The same for step 0.
  [[nodiscard]] constexpr std::size_t first_before() const noexcept {
    return reverse ? batch() : 0;
  }
  [[nodiscard]] constexpr std::size_t first_after() const noexcept { return reverse ? 0 : batch(); }

  /// Steps whose products with the inputs are computed together, just before the recurrence wants
  /// them.
  [[nodiscard]] constexpr std::size_t steps_at_once() const noexcept {
    return std::max<std::size_t>(1, 64 / std::max<std::size_t>(batch(), 1));
  }
};

/// The arrays of a recurrence. Those over steps are [feature][stride()].
template <class T>
struct Recurrence {
  RecurrenceSize size;
  const T* inputs = nullptr;            ///< of `inputs` features
  const T* kernel = nullptr;            ///< [inputs][gates * units]
  const T* recurrent_kernel = nullptr;  ///< [units][gates * units]
  const T* bias = nullptr;              ///< [gates * units]; null: none
  const T* recurrent_bias =
      nullptr;  ///< the same, of a GRU whose reset gate comes after the product; null: none
  const T* mask = nullptr;  ///< [columns()]: 0 where a sample's state is carried on; null: nowhere
  const T* dropout =
      nullptr;  ///< [units][batch()]: factors of the state, before it is multiplied; null: none
  T* gates =
      nullptr;  ///< forward leaves what backward needs, backward the gradients of the gates' inputs
  T* states = nullptr;   ///< the state that is the output
  T* dropped = nullptr;  ///< the states times dropout; without it, `states`
  T* inner =
      nullptr;  ///< LSTM: the cell's state. GRU: what the reset gate is applied to, or its result
  T* gradients = nullptr;  ///< of the states: backward adds what comes from later steps
  T* carry = nullptr;      ///< [units][batch()], for backward
  T* product = nullptr;    ///< [units][batch()], for backward with dropout

  [[nodiscard]] constexpr std::size_t rows() const noexcept { return size.gates * size.units; }
};

namespace detail {

/// After step number i: the padding is zero again, as it is before the first step. An activation
/// without a bound could make it grow from step to step until it is infinite. `cells`: arrays of
/// states beside r.states and r.dropped; null: none.
template <class T>
void clear_step_padding(const Recurrence<T>& r, std::size_t i, T* cells = nullptr) {
  const RecurrenceSize& s = r.size;
  const std::size_t pads = s.batch() - s.samples;
  if (pads == 0) return;
  for (std::size_t row = 0; row < r.rows(); ++row)
    std::fill_n(r.gates + row * s.stride() + s.column(i) + s.samples, pads, T(0));
  for (T* const states : {r.states, r.dropped, cells})
    for (std::size_t unit = 0; states != nullptr && unit < s.units; ++unit)
      std::fill_n(states + unit * s.stride() + s.after(i) + s.samples, pads, T(0));
}

/// Sets to zero the state before the first step.
template <class T>
void clear_first_state(const RecurrenceSize& size, T* states) {
  for (std::size_t unit = 0; unit < size.units; ++unit)
    std::fill_n(states + unit * size.stride() + size.before(0), size.batch(), T(0));
}

/// gates = bias + kernel * inputs, for the steps from number i on in the order of computation: as
/// many as are computed together, when i is the first of them.
template <class T>
void input_product(const Recurrence<T>& r, std::size_t i) {
  const RecurrenceSize& s = r.size;
  if (i % s.steps_at_once() != 0) return;
  const std::size_t count = std::min(s.steps_at_once(), s.steps - i);
  const std::size_t column = std::min(s.column(i), s.column(i + count - 1));
  multiply<T>({r.gates + column, r.rows(), count * s.batch(), s.stride()}, r.kernel,
              r.inputs + column, s.inputs, {.a_row = 1, .a = r.rows(), .b = {s.stride()}}, r.bias);
}

/// Rows of gates from `first` on += bias + recurrent kernel * from, which is [units][stride()].
template <class T>
void recurrent_product(const Recurrence<T>& r, std::size_t i, std::size_t first, std::size_t rows,
                       const T* from, const T* bias = nullptr) {
  const RecurrenceSize& s = r.size;
  multiply_onto<T>({r.gates + first * s.stride() + s.column(i), rows, s.batch(), s.stride()},
                   r.recurrent_kernel + first, from, s.units,
                   {.a_row = 1, .a = r.rows(), .b = {s.stride()}}, bias);
}

/// to[units][...] = recurrent kernel * gates, for `rows` of its columns from `first` on.
template <class T>
void back_product(const Recurrence<T>& r, std::size_t first, std::size_t rows, const T* gates,
                  T* to, std::size_t to_stride, bool onto = false) {
  multiply_blocks<T>({to, r.size.units, r.size.batch(), to_stride}, r.recurrent_kernel + first,
                     gates, rows, {.a_row = r.rows(), .a = 1, .b = {r.size.stride()}},
                     {onto, nullptr}, {});
}

/// to[unit][sample] += from * factors, for kernels::dispatch.
template <class T>
struct AddScaled {
  std::size_t rows, columns, to_step;
  const T* from;
  const T* factors;
  T* to;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < columns; i += P::size) {
        T* const place = to + row * to_step + i;
        multiply_add(P(from + row * columns + i), P(factors + row * columns + i), P(place))
            .store(place);
      }
  }
};

/// Adds the same to the gradient of the state before step number i, through the dropout.
template <class T>
void back_to_state(const Recurrence<T>& r, std::size_t i, std::size_t first, std::size_t rows,
                   const T* gates) {
  T* const to = r.gradients + r.size.column(i - 1);
  if (r.dropout == nullptr) {
    back_product(r, first, rows, gates, to, r.size.stride(), true);
    return;
  }
  back_product(r, first, rows, gates, r.product, r.size.batch());
  dispatch(AddScaled<T>{r.size.units, r.size.batch(), r.size.stride(), r.product, r.dropout, to});
}

}  // namespace detail

/// One of the products of transposed deltas: to[i][j] = sum over columns of a[i][column] *
/// delta[j][column], for the first `columns` of the deltas.
template <class T>
struct DeltaProduct {
  const T* a = nullptr;  ///< [rows][stride of the deltas]
  std::size_t rows = 0;
  std::size_t columns = 0;
  T* to = nullptr;
  std::size_t to_step = 0;
};

/// Columns of deltas that are transposed together.
inline constexpr std::size_t delta_columns_at_once = 2 * inner_block;

/// Elements of scratch that delta_products needs for so many deltas.
[[nodiscard]] constexpr std::size_t delta_products_scratch(std::size_t deltas) noexcept {
  return transposed_size(deltas, delta_columns_at_once);
}

/// All products of `count` rows of deltas of so many columns, and their sums: bias_gradient[j] =
/// sum over columns of delta[j][column]; null: not wanted.
template <class T>
void delta_products(const T* deltas, std::size_t count, std::size_t columns, std::size_t stride,
                    std::span<const DeltaProduct<T>> products, T* bias_gradient, T* scratch) {
  if (bias_gradient != nullptr) std::fill_n(bias_gradient, count, T(0));
  std::size_t column = 0;
  do {
    const std::size_t width = std::min(delta_columns_at_once, columns - column);
    const Panels panels = transposed_panels(count, width);
    dispatch(
        Transpose<T>{{deltas + column, deltas + column}, count, width, scratch, panels, stride});
    if (bias_gradient != nullptr)
      dispatch(ColumnSums<T>{scratch, width, count, panels, bias_gradient});
    for (const DeltaProduct<T>& product : products)
      multiply_blocks<T>({product.to, product.rows, product.columns, product.to_step},
                         product.a + column, scratch, width, {.a_row = stride, .a = 1, .b = panels},
                         {column > 0, nullptr}, {});
    column += width;
  } while (column < columns);
}

LOCKSTEP_EXTERN(void delta_products<float>(const float*, std::size_t, std::size_t, std::size_t,
                                           std::span<const DeltaProduct<float>>, float*, float*));
LOCKSTEP_EXTERN_DOUBLE(void delta_products<double>(const double*, std::size_t, std::size_t,
                                                   std::size_t,
                                                   std::span<const DeltaProduct<double>>, double*,
                                                   double*));

/// Gradients of a recurrence's weights. bias and recurrent_bias may be null: not wanted.
template <class T>
struct RecurrentGradients {
  T* kernel = nullptr;
  T* recurrent_kernel = nullptr;
  T* bias = nullptr;
  T* recurrent_bias = nullptr;
  T* scratch = nullptr;  ///< delta_products_scratch(gates * units)
};

/// Those of one whose gates all see the state before: LSTM, SimpleRNN.
template <class T>
void recurrent_gradients(const Recurrence<T>& r, const RecurrentGradients<T>& to) {
  const RecurrenceSize& s = r.size;
  const DeltaProduct<T> products[] = {
      {r.inputs, s.inputs, r.rows(), to.kernel, r.rows()},
      {r.dropped + s.first_before(), s.units, r.rows(), to.recurrent_kernel, r.rows()}};
  delta_products<T>(r.gates, r.rows(), s.columns(), s.stride(), products, to.bias, to.scratch);
}

/// The gradient of the inputs, to [inputs][stride()], which may be where they were; `onto`: it is
/// added to what is there. After recurrent_gradients.
template <class T>
void recurrent_input_gradient(const Recurrence<T>& r, T* to, bool onto) {
  const RecurrenceSize& s = r.size;
  multiply_blocks<T>({to, s.inputs, s.columns(), s.stride()}, r.kernel, r.gates, r.rows(),
                     {.a_row = r.rows(), .a = 1, .b = {s.stride()}}, {onto, nullptr}, {});
}

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels
