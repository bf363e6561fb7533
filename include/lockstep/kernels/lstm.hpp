// The recurrence of an LSTM.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/recurrence.hpp"

// Gates in the order i, f, c, o; a is Activation (tanh), s is Recurrent (the logistic function):
//   c' = s(f) c + s(i) a(c gate),  h' = s(o) a(c').
// Recurrence::inner is c, with the state before the first step as `states` has it.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// onto + A::gradient(dy, y).
template <class A, class P>
LOCKSTEP_KERNEL P add_gradient(const P& dy, const P& y, const P& onto) {
  if constexpr (requires { A::add_gradient(dy, y, onto); })
    return A::add_gradient(dy, y, onto);
  else
    return onto + A::gradient(dy, y);
}

/// The gates of step number i, forward, for kernels::dispatch.
template <class T, class Activation, class Recurrent>
struct LstmStep {
  const Recurrence<T>& recurrence;
  std::size_t i;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Recurrence<T> r = recurrence;
    const RecurrenceSize s = r.size;
    const std::size_t batch = s.batch(), next_gate = s.units * batch;
    const T* const mask = r.mask == nullptr ? nullptr : r.mask + s.column(i);
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      const std::size_t row = unit * batch;
      T* const gates = r.gates_of(i) + row;
      const T* const cells_before = r.before(r.inner, i) + row;
      T* const cells = r.after(r.inner, i) + row;
      T* const states = r.after(r.states, i) + row;
      for (std::size_t b = 0; b < batch; b += P::size) {
        const P input = Recurrent::value(P(gates + b));
        const P forget = Recurrent::value(P(gates + next_gate + b));
        const P candidate = Activation::value(P(gates + 2 * next_gate + b));
        const P output = Recurrent::value(P(gates + 3 * next_gate + b));
        const P cell_before(cells_before + b);
        P cell = multiply_add(forget, cell_before, input * candidate);
        P state = output * Activation::value(cell);
        if (mask != nullptr) {
          const typename P::Mask counts = P(mask + b) != P(T(0));
          cell = select(counts, cell, cell_before);
          state = select(counts, state, P(r.before(r.states, i) + row + b));
        }
        input.store(gates + b);
        forget.store(gates + next_gate + b);
        candidate.store(gates + 2 * next_gate + b);
        output.store(gates + 3 * next_gate + b);
        cell.store(cells + b);
        state.store(states + b);
        if (r.dropout != nullptr)
          (state * P(r.dropout + row + b)).store(r.after(r.dropped, i) + row + b);
      }
    }
  }
};

/// The gates of step number i, backward: from the gradients of h' (in r.gradients) and c' (in
/// r.carry) to those of the gates' inputs, in place of the gates, and of c. A masked sample's
/// gradients go to the step before as they are.
template <class T, class Activation, class Recurrent>
struct LstmBackStep {
  const Recurrence<T>& recurrence;
  std::size_t i;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Recurrence<T> r = recurrence;
    const RecurrenceSize s = r.size;
    const std::size_t batch = s.batch(), next_gate = s.units * batch;
    const T* const mask = r.mask == nullptr ? nullptr : r.mask + s.column(i);
    const std::size_t next = i > 0 ? i - 1 : 0;
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      const std::size_t row = unit * batch;
      T* const gates = r.gates_of(i) + row;
      const T* const cells_before = r.before(r.inner, i) + row;
      const T* const cells = r.after(r.inner, i) + row;
      const T* const gradients = r.own(r.gradients, i) + row;
      T* const carry = r.carry + row;
      for (std::size_t b = 0; b < batch; b += P::size) {
        const P input(gates + b), forget(gates + next_gate + b),
            candidate(gates + 2 * next_gate + b), output(gates + 3 * next_gate + b);
        // (The prefetchers look for what follows, and the next step lies before this one.)
#pragma GCC unroll 4
        for (std::size_t gate = 0; gate < 4; ++gate)
          __builtin_prefetch(r.gates_of(next) + row + gate * next_gate + b);
        __builtin_prefetch(r.before(r.inner, next) + row + b);
        __builtin_prefetch(r.own(r.gradients, next) + row + b);
        const P state_gradient(gradients + b);
        const P old_carry(carry + b);
        const P squashed = Activation::value(P(cells + b));
        const P cell_gradient =
            add_gradient<Activation>(state_gradient * output, squashed, old_carry);
        P d_input = Recurrent::gradient(cell_gradient * candidate, input);
        P d_forget = Recurrent::gradient(cell_gradient * P(cells_before + b), forget);
        P d_candidate = Activation::gradient(cell_gradient * input, candidate);
        P d_output = Recurrent::gradient(state_gradient * squashed, output);
        P new_carry = cell_gradient * forget;
        if (mask != nullptr) {
          const typename P::Mask counts = P(mask + b) != P(T(0));
          const P zero(T(0));
          d_input = select(counts, d_input, zero);
          d_forget = select(counts, d_forget, zero);
          d_candidate = select(counts, d_candidate, zero);
          d_output = select(counts, d_output, zero);
          new_carry = select(counts, new_carry, old_carry);
          if (i > 0) {
            T* const before = r.own(r.gradients, i - 1) + row + b;
            (P(before) + select(counts, zero, state_gradient)).store(before);
          }
        }
        d_input.store(gates + b);
        d_forget.store(gates + next_gate + b);
        d_candidate.store(gates + 2 * next_gate + b);
        d_output.store(gates + 3 * next_gate + b);
        new_carry.store(carry + b);
      }
    }
  }
};

}  // namespace detail

/// Leaves h in r.states, c in r.inner, the gates in r.gates. recurrent_bias is not used.
template <class T, class Activation = TanhGate, class Recurrent = LogisticGate>
void lstm_forward(const Recurrence<T>& r) {
  detail::clear_first_state(r, r.states);
  detail::clear_first_state(r, r.dropped);
  detail::clear_first_state(r, r.inner);
  for (std::size_t i = 0; i < r.size.steps; ++i) {
    detail::input_product(r, i);
    if (i > 0 || r.continues)
      detail::recurrent_product<T>(r, i, 0, r.rows(), r.before(r.dropped, i));
    dispatch(detail::LstmStep<T, Activation, Recurrent>{r, i});
    if constexpr (!are_bounded<Activation, Recurrent>) detail::clear_step_padding(r, i, r.inner);
  }
}

/// After forward, with the gradients of all states from outside in r.gradients: leaves those of the
/// gates' inputs in r.gates, for recurrent_gradients and recurrent_input_gradient.
template <class T, class Activation = TanhGate, class Recurrent = LogisticGate>
void lstm_backward(const Recurrence<T>& r) {
  std::fill_n(r.carry, r.size.units * r.size.batch(), T(0));
  for (std::size_t i = r.size.steps; i-- > 0;) {
    dispatch(detail::LstmBackStep<T, Activation, Recurrent>{r, i});
    if (i > 0) detail::back_to_state<T>(r, i, 0, r.rows(), r.gates_of(i));
  }
}

LOCKSTEP_EXTERN(void lstm_forward<float>(const Recurrence<float>&));
LOCKSTEP_EXTERN_DOUBLE(void lstm_forward<double>(const Recurrence<double>&));
LOCKSTEP_EXTERN(void lstm_backward<float>(const Recurrence<float>&));
LOCKSTEP_EXTERN_DOUBLE(void lstm_backward<double>(const Recurrence<double>&));

}}}  // namespace lockstep::kernels
