// What all recurrences share: where their numbers lie, and their products.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/column_sums.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/product.hpp"
#include "lockstep/kernels/transpose.hpp"

// A recurrence runs step by step, over all samples at once. Its arrays are [step][feature][sample]:
// what one step reads and writes lies in a few runs of memory. Arrays of states have one step more
// than there are: the state before the first, which is zero.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

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
  /// Columns of an array of states.
  [[nodiscard]] constexpr std::size_t state_columns() const noexcept {
    return (steps + 1) * batch();
  }

  /// The step that is number `i` in the order of computation.
  [[nodiscard]] constexpr std::size_t step(std::size_t i) const noexcept {
    return reverse ? steps - 1 - i : i;
  }
  /// Its offset in an array of one feature; before() and after(): in arrays of states, those of the
  /// states before and after it. With more features, as many times that.
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
};

/// The arrays of a recurrence. Those over steps are [step][feature][batch()].
template <class T>
struct Recurrence {
  RecurrenceSize size;
  bool continues = false;               ///< the initial state is given; otherwise it is zero
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
  /// The gates of step number i; of an array of `units` features, its own and, of states, those
  /// before and after it.
  [[nodiscard]] T* gates_of(std::size_t i) const noexcept {
    return gates + rows() * size.column(i);
  }
  template <class U>
  [[nodiscard]] U* own(U* array, std::size_t i) const noexcept {
    return array + size.units * size.column(i);
  }
  template <class U>
  [[nodiscard]] U* before(U* array, std::size_t i) const noexcept {
    return array + size.units * size.before(i);
  }
  template <class U>
  [[nodiscard]] U* after(U* array, std::size_t i) const noexcept {
    return array + size.units * size.after(i);
  }
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
    std::fill_n(r.gates_of(i) + row * s.batch() + s.samples, pads, T(0));
  for (T* const states : {r.states, r.dropped, cells})
    for (std::size_t unit = 0; states != nullptr && unit < s.units; ++unit)
      std::fill_n(r.after(states, i) + unit * s.batch() + s.samples, pads, T(0));
}

/// Sets to zero the state before the first step, unless the recurrence continues.
template <class T>
void clear_first_state(const Recurrence<T>& r, T* states) {
  if (!r.continues) std::fill_n(r.before(states, 0), r.size.units * r.size.batch(), T(0));
}

/// gates = bias + kernel * inputs, for step number i.
template <class T>
void input_product(const Recurrence<T>& r, std::size_t i) {
  const RecurrenceSize& s = r.size;
  multiply<T>({r.gates_of(i), r.rows(), s.batch(), s.batch()}, r.kernel,
              r.inputs + s.inputs * s.column(i), s.inputs,
              {.a_row = 1, .a = r.rows(), .b = {s.batch()}}, r.bias);
}

/// Rows of step number i's gates from `first` on += bias + recurrent kernel * from, which is
/// [units][batch()].
template <class T>
void recurrent_product(const Recurrence<T>& r, std::size_t i, std::size_t first, std::size_t rows,
                       const T* from, const T* bias = nullptr) {
  const std::size_t batch = r.size.batch();
  multiply_onto<T>({r.gates_of(i) + first * batch, rows, batch, batch}, r.recurrent_kernel + first,
                   from, r.size.units, {.a_row = 1, .a = r.rows(), .b = {batch}}, bias);
}

/// to[units][batch()] = recurrent kernel * gates, for `rows` of its columns from `first` on.
template <class T>
void back_product(const Recurrence<T>& r, std::size_t first, std::size_t rows, const T* gates,
                  T* to, bool onto = false) {
  const std::size_t batch = r.size.batch();
  multiply_blocks<T>({to, r.size.units, batch, batch}, r.recurrent_kernel + first, gates, rows,
                     {.a_row = r.rows(), .a = 1, .b = {batch}}, {onto, nullptr}, {});
}

/// to += from * factors, for kernels::dispatch.
template <class T>
struct AddScaled {
  std::size_t count;
  const T* from;
  const T* factors;
  T* to;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    for (std::size_t i = 0; i < count; i += P::size)
      multiply_add(P(from + i), P(factors + i), P(to + i)).store(to + i);
  }
};

/// Adds the same to the gradient of the state before step number i, through the dropout.
template <class T>
void back_to_state(const Recurrence<T>& r, std::size_t i, std::size_t first, std::size_t rows,
                   const T* gates) {
  T* const to = r.own(r.gradients, i - 1);
  if (r.dropout == nullptr) {
    back_product(r, first, rows, gates, to, true);
    return;
  }
  back_product(r, first, rows, gates, r.product);
  dispatch(AddScaled<T>{r.size.units * r.size.batch(), r.product, r.dropout, to});
}

}  // namespace detail

/// Deltas of each step, [step][features][batch], of which the first `count` features are wanted.
template <class T>
struct Deltas {
  const T* data = nullptr;
  std::size_t count = 0;
  std::size_t features = 0;
  std::size_t steps = 0;
  std::size_t batch = 0;
};

/// One of the products of transposed deltas: to[i][j] = sum over steps and samples of
/// a[step][i][sample] * delta[step][j][sample], for the first `columns` of the deltas.
template <class T>
struct DeltaProduct {
  const T* a = nullptr;  ///< [step][rows][batch]
  std::size_t rows = 0;
  std::size_t columns = 0;
  T* to = nullptr;
  std::size_t to_step = 0;
};

/// Samples of deltas, of one step or several, that are transposed together.
inline constexpr std::size_t delta_columns_at_once = 2 * inner_block;

/// Elements of scratch that delta_products needs for this many deltas.
[[nodiscard]] constexpr std::size_t delta_products_scratch(std::size_t deltas) noexcept {
  return transposed_size(deltas, delta_columns_at_once);
}

namespace detail {

/// Calls f(step, first sample, samples, samples so far) for the runs within a step of [begin, end),
/// which counts the samples of all steps.
template <class F>
void each_run(std::size_t begin, std::size_t end, std::size_t batch, const F& f) {
  for (std::size_t i = begin; i < end;) {
    const std::size_t first = i % batch, count = std::min(batch - first, end - i);
    f(i / batch, first, count, i - begin);
    i += count;
  }
}

}  // namespace detail

/// All products of the deltas, and their sums: bias_gradient[j] = sum over steps and samples of
/// delta[step][j][sample]; null: not wanted.
template <class T>
void delta_products(const Deltas<T>& deltas, std::span<const DeltaProduct<T>> products,
                    T* bias_gradient, T* scratch) {
  const std::size_t count = deltas.count, batch = deltas.batch, columns = deltas.steps * batch;
  if (bias_gradient != nullptr) std::fill_n(bias_gradient, count, T(0));
  std::size_t column = 0;
  do {
    const std::size_t width = std::min(delta_columns_at_once, columns - column);
    const Panels panels = transposed_panels(count, width);
    detail::each_run(column, column + width, batch,
                     [&](std::size_t step, std::size_t first, std::size_t n, std::size_t done) {
                       const T* const from = deltas.data + step * deltas.features * batch + first;
                       dispatch(Transpose<T>{
                           {from, from}, count, n, scratch + done * panels.step, panels, batch});
                     });
    if (bias_gradient != nullptr)
      dispatch(ColumnSums<T>{scratch, width, count, panels, bias_gradient});
    for (std::size_t done = 0; done < std::max<std::size_t>(width, 1); done += inner_block)
      for (const DeltaProduct<T>& product : products) {
        Segment<T> segments[inner_block / 16];
        std::size_t runs = 0;
        detail::each_run(
            column + done, column + std::min(done + inner_block, width), batch,
            [&](std::size_t step, std::size_t first, std::size_t n, std::size_t before) {
              segments[runs++] = {product.a + step * product.rows * batch + first,
                                  scratch + (done + before) * panels.step, n};
            });
        dispatch(ProductBlock<T>{{product.to, product.rows, product.columns, product.to_step},
                                 segments,
                                 runs,
                                 {.a_row = batch, .a = 1, .b = panels},
                                 {.sums = column + done > 0},
                                 {}});
      }
    column += width;
  } while (column < columns);
}

LOCKSTEP_EXTERN(void delta_products<float>(const Deltas<float>&,
                                           std::span<const DeltaProduct<float>>, float*, float*));
LOCKSTEP_EXTERN_DOUBLE(void delta_products<double>(const Deltas<double>&,
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

/// The gradients of a recurrence whose gates all see the state before: LSTM, SimpleRNN.
template <class T>
void recurrent_gradients(const Recurrence<T>& r, const RecurrentGradients<T>& to) {
  const RecurrenceSize& s = r.size;
  const DeltaProduct<T> products[] = {
      {r.inputs, s.inputs, r.rows(), to.kernel, r.rows()},
      {r.dropped + s.units * s.first_before(), s.units, r.rows(), to.recurrent_kernel, r.rows()}};
  delta_products<T>({r.gates, r.rows(), r.rows(), s.steps, s.batch()}, products, to.bias,
                    to.scratch);
}

/// The gradient of the inputs, to [step][inputs][batch()], which may be where they were; `onto`: it
/// is added to what is there. After recurrent_gradients.
template <class T>
void recurrent_input_gradient(const Recurrence<T>& r, T* to, bool onto) {
  const RecurrenceSize& s = r.size;
  for (std::size_t i = 0; i < s.steps; ++i)
    multiply_blocks<T>({to + s.inputs * s.column(i), s.inputs, s.batch(), s.batch()}, r.kernel,
                       r.gates_of(i), r.rows(), {.a_row = r.rows(), .a = 1, .b = {s.batch()}},
                       {onto, nullptr}, {});
}

}}}  // namespace lockstep::kernels
