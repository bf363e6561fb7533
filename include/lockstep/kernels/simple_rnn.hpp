// The recurrence of a SimpleRNN.
#pragma once

#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/recurrence.hpp"

// h' = a(gate), with one gate and a = Activation (tanh). Recurrence::inner is not used.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

namespace detail {

/// Step number i, forward, for kernels::dispatch.
template <class T, class Activation>
struct SimpleStep {
  const Recurrence<T>& recurrence;
  std::size_t i;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Recurrence<T> r = recurrence;
    const RecurrenceSize s = r.size;
    const std::size_t batch = s.batch();
    const T* const mask = r.mask == nullptr ? nullptr : r.mask + s.column(i);
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      const std::size_t row = unit * batch;
      T* const gates = r.gates_of(i) + row;
      for (std::size_t b = 0; b < batch; b += P::size) {
        P state = Activation::value(P(gates + b));
        state.store(gates + b);
        if (mask != nullptr)
          state = select(P(mask + b) != P(T(0)), state, P(r.before(r.states, i) + row + b));
        state.store(r.after(r.states, i) + row + b);
        if (r.dropout != nullptr)
          (state * P(r.dropout + row + b)).store(r.after(r.dropped, i) + row + b);
      }
    }
  }
};

/// And backward: the gradient of the gate's input takes the gate's place.
template <class T, class Activation>
struct SimpleBackStep {
  const Recurrence<T>& recurrence;
  std::size_t i;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Recurrence<T> r = recurrence;
    const RecurrenceSize s = r.size;
    const T* const mask = r.mask == nullptr ? nullptr : r.mask + s.column(i);
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      const std::size_t row = unit * s.batch();
      T* const gates = r.gates_of(i) + row;
      for (std::size_t b = 0; b < s.batch(); b += P::size) {
        const P gate(gates + b);
        const P gradient(r.own(r.gradients, i) + row + b);
        P inside = Activation::gradient(gradient, gate);
        if (mask != nullptr) {
          const typename P::Mask counts = P(mask + b) != P(T(0));
          const P zero(T(0));
          inside = select(counts, inside, zero);
          if (i > 0) {
            T* const before = r.own(r.gradients, i - 1) + row + b;
            (P(before) + select(counts, zero, gradient)).store(before);
          }
        }
        inside.store(gates + b);
      }
    }
  }
};

}  // namespace detail

/// Leaves h in r.states, and in r.gates what backward needs.
template <class T, class Activation = TanhGate>
void simple_rnn_forward(const Recurrence<T>& r) {
  detail::clear_first_state(r, r.states);
  detail::clear_first_state(r, r.dropped);
  for (std::size_t i = 0; i < r.size.steps; ++i) {
    detail::input_product(r, i);
    if (i > 0 || r.continues)
      detail::recurrent_product<T>(r, i, 0, r.rows(), r.before(r.dropped, i));
    dispatch(detail::SimpleStep<T, Activation>{r, i});
    if constexpr (!are_bounded<Activation>) detail::clear_step_padding(r, i);
  }
}

/// After forward, with the gradients of all states from outside in r.gradients: leaves those of the
/// gates' inputs in r.gates, for recurrent_gradients and recurrent_input_gradient.
template <class T, class Activation = TanhGate>
void simple_rnn_backward(const Recurrence<T>& r) {
  for (std::size_t i = r.size.steps; i-- > 0;) {
    dispatch(detail::SimpleBackStep<T, Activation>{r, i});
    if (i > 0) detail::back_to_state<T>(r, i, 0, r.rows(), r.gates_of(i));
  }
}

LOCKSTEP_EXTERN(void simple_rnn_forward<float>(const Recurrence<float>&));
LOCKSTEP_EXTERN_DOUBLE(void simple_rnn_forward<double>(const Recurrence<double>&));
LOCKSTEP_EXTERN(void simple_rnn_backward<float>(const Recurrence<float>&));
LOCKSTEP_EXTERN_DOUBLE(void simple_rnn_backward<double>(const Recurrence<double>&));

}}}  // namespace lockstep::kernels
