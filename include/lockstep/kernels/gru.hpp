// The recurrence of a GRU.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/exp.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/recurrence.hpp"

// Gates in the order z, r, h; a is Activation (tanh), s is Recurrent (the logistic function), U the
// recurrent kernel, q = h U + recurrent bias for gate h:
//   h' = s(z) h + (1 - s(z)) hh, with hh = a(h gate + s(r) q)        reset after the product
//                                   hh = a(h gate + (s(r) h) U)      reset before it
// Recurrence::inner is q, then its gradient; or s(r) h. It is at the columns of the step.

namespace lockstep::inline LOCKSTEP_ABI::kernels {

namespace detail {

/// s(r) h, for step number i of a GRU whose reset gate comes before the product, for
/// kernels::dispatch.
template <class T, class Recurrent>
struct GruReset {
  const Recurrence<T>& recurrence;
  std::size_t i;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Recurrence<T> r = recurrence;
    const RecurrenceSize s = r.size;
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      T* const gates = r.gates + (s.units + unit) * s.stride() + s.column(i);
      const T* const before = r.dropped + unit * s.stride() + s.before(i);
      T* const to = r.inner + unit * s.stride() + s.column(i);
      for (std::size_t b = 0; b < s.batch(); b += P::size) {
        const P reset = Recurrent::value(P(gates + b));
        reset.store(gates + b);
        (reset * P(before + b)).store(to + b);
      }
    }
  }
};

/// The other gates of step number i, forward, for kernels::dispatch.
template <class T, bool ResetAfter, class Activation, class Recurrent>
struct GruStep {
  const Recurrence<T>& recurrence;
  std::size_t i;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Recurrence<T> r = recurrence;
    const RecurrenceSize s = r.size;
    const std::size_t stride = s.stride(), batch = s.batch(), next_gate = s.units * stride;
    const T* const mask = r.mask == nullptr ? nullptr : r.mask + s.column(i);
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      T* const gates = r.gates + unit * stride + s.column(i);
      T* const states = r.states + unit * stride;
      for (std::size_t b = 0; b < batch; b += P::size) {
        const P update = Recurrent::value(P(gates + b));
        P inside(gates + 2 * next_gate + b);
        if constexpr (ResetAfter) {
          const P reset = Recurrent::value(P(gates + next_gate + b));
          reset.store(gates + next_gate + b);
          inside = multiply_add(reset, P(r.inner + unit * stride + s.column(i) + b), inside);
        }
        const P candidate = Activation::value(inside);
        const P before(states + s.before(i) + b);
        P state = multiply_add(update, before, (P(T(1)) - update) * candidate);
        if (mask != nullptr) state = select(P(mask + b) != P(T(0)), state, before);
        update.store(gates + b);
        candidate.store(gates + 2 * next_gate + b);
        state.store(states + s.after(i) + b);
        if (r.dropout != nullptr)
          (state * P(r.dropout + unit * batch + b))
              .store(r.dropped + unit * stride + s.after(i) + b);
      }
    }
  }
};

/// The gates of step number i, backward: from the gradient of h' to those of the gates' inputs (but
/// gate r of a GRU that resets before the product), in place of the gates. What reaches h past the
/// products is added to the gradient of the state before.
template <class T, bool ResetAfter, class Activation, class Recurrent>
struct GruBackStep {
  const Recurrence<T>& recurrence;
  std::size_t i;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Recurrence<T> r = recurrence;
    const RecurrenceSize s = r.size;
    const std::size_t stride = s.stride(), next_gate = s.units * stride;
    const T* const mask = r.mask == nullptr ? nullptr : r.mask + s.column(i);
    const std::size_t following = i > 0 ? i - 1 : 0;
    const P zero(T(0)), one(T(1));
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      T* const gates = r.gates + unit * stride + s.column(i);
      T* const gradients = r.gradients + unit * stride;
      const T* const next = r.gates + unit * stride + s.column(following);
      for (std::size_t b = 0; b < s.batch(); b += P::size) {
        // (Steps of a row lie next to each other: no prefetcher sees them coming.)
#pragma GCC unroll 3
        for (std::size_t gate = 0; gate < 3; ++gate)
          __builtin_prefetch(next + gate * next_gate + b);
        __builtin_prefetch(gradients + s.column(following) + b);
        const P update(gates + b), candidate(gates + 2 * next_gate + b);
        const P before(r.states + unit * stride + s.before(i) + b);
        const P gradient(gradients + s.column(i) + b);
        // A masked sample's gradient goes to the step before as it is.
        P used = gradient, past = gradient * update;
        if (mask != nullptr) {
          const typename P::Mask counts = P(mask + b) != zero;
          used = select(counts, gradient, zero);
          past = select(counts, past, gradient);
        }
        const P inside = Activation::gradient(used * (one - update), candidate);
        Recurrent::gradient(used * (before - candidate), update).store(gates + b);
        inside.store(gates + 2 * next_gate + b);
        if constexpr (ResetAfter) {
          T* const inner = r.inner + unit * stride + s.column(i) + b;
          const P reset(gates + next_gate + b);
          Recurrent::gradient(inside * P(inner), reset).store(gates + next_gate + b);
          (inside * reset).store(inner);
        }
        if (i > 0) {
          T* const to = gradients + s.column(i - 1) + b;
          (P(to) + past).store(to);
        }
      }
    }
  }
};

/// Gate r of a GRU that resets before the product, backward, for kernels::dispatch: from the
/// gradient of s(r) h, in r.carry.
template <class T, class Recurrent>
struct GruBackReset {
  const Recurrence<T>& recurrence;
  std::size_t i;

  template <class Isa>
  LOCKSTEP_KERNEL void operator()() const {
    using P = Pack<T, Isa::vector_bytes>;
    const Recurrence<T> r = recurrence;
    const RecurrenceSize s = r.size;
    const std::size_t stride = s.stride(), batch = s.batch();
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      T* const gates = r.gates + (s.units + unit) * stride + s.column(i);
      const T* const before = r.dropped + unit * stride + s.before(i);
      for (std::size_t b = 0; b < batch; b += P::size) {
        const P reset(gates + b);
        const P product(r.carry + unit * batch + b);
        Recurrent::gradient(product * P(before + b), reset).store(gates + b);
        if (i == 0) continue;
        P past = product * reset;
        if (r.dropout != nullptr) past *= P(r.dropout + unit * batch + b);
        T* const to = r.gradients + unit * stride + s.column(i - 1) + b;
        (P(to) + past).store(to);
      }
    }
  }
};

}  // namespace detail

/// Leaves h in r.states, and in r.gates and r.inner what backward needs.
template <class T, bool ResetAfter, class Activation = TanhGate, class Recurrent = LogisticGate>
void gru_forward(const Recurrence<T>& r) {
  const RecurrenceSize& s = r.size;
  const std::size_t u = s.units;
  detail::clear_first_state(s, r.states);
  detail::clear_first_state(s, r.dropped);
  for (std::size_t i = 0; i < s.steps; ++i) {
    const T* const before = r.dropped + s.before(i);
    detail::input_product(r, i);
    detail::recurrent_product<T>(r, i, 0, 2 * u, before, r.recurrent_bias);
    if constexpr (ResetAfter) {
      multiply<T>({r.inner + s.column(i), u, s.batch(), s.stride()}, r.recurrent_kernel + 2 * u,
                  before, u, {.a_row = 1, .a = 3 * u, .b = {s.stride()}},
                  r.recurrent_bias == nullptr ? nullptr : r.recurrent_bias + 2 * u);
    } else {
      dispatch(detail::GruReset<T, Recurrent>{r, i});
      detail::recurrent_product<T>(r, i, 2 * u, u, r.inner + s.column(i));
    }
    dispatch(detail::GruStep<T, ResetAfter, Activation, Recurrent>{r, i});
    if constexpr (!are_bounded<Activation, Recurrent>) detail::clear_step_padding(r, i);
  }
}

/// After forward, with the gradients of all states from outside in r.gradients: leaves those of the
/// gates' inputs in r.gates, for gru_gradients and recurrent_input_gradient.
template <class T, bool ResetAfter, class Activation = TanhGate, class Recurrent = LogisticGate>
void gru_backward(const Recurrence<T>& r) {
  const RecurrenceSize& s = r.size;
  const std::size_t u = s.units;
  for (std::size_t i = s.steps; i-- > 0;) {
    const T* const gates = r.gates + s.column(i);
    dispatch(detail::GruBackStep<T, ResetAfter, Activation, Recurrent>{r, i});
    if constexpr (!ResetAfter) {
      detail::back_product<T>(r, 2 * u, u, gates + 2 * u * s.stride(), r.carry, s.batch());
      dispatch(detail::GruBackReset<T, Recurrent>{r, i});
    }
    if (i == 0) continue;
    detail::back_to_state<T>(r, i, 0, 2 * u, gates);
    if constexpr (ResetAfter) detail::back_to_state<T>(r, i, 2 * u, u, r.inner + s.column(i));
  }
}

/// The gradients of the weights, after gru_backward.
template <class T, bool ResetAfter>
void gru_gradients(const Recurrence<T>& r, const RecurrentGradients<T>& to) {
  const RecurrenceSize& s = r.size;
  const std::size_t u = s.units;
  const T* const before = r.dropped + s.first_before();
  const DeltaProduct<T> all[] = {{r.inputs, s.inputs, 3 * u, to.kernel, 3 * u},
                                 {before, u, 2 * u, to.recurrent_kernel, 3 * u}};
  delta_products<T>(r.gates, 3 * u, s.columns(), s.stride(), all, to.bias, to.scratch);
  T* const kernel_of_h = to.recurrent_kernel + 2 * u;
  if constexpr (ResetAfter) {
    if (to.recurrent_bias != nullptr) std::copy_n(to.bias, 2 * u, to.recurrent_bias);
    const DeltaProduct<T> of_h[] = {{before, u, u, kernel_of_h, 3 * u}};
    delta_products<T>(r.inner, u, s.columns(), s.stride(), of_h,
                      to.recurrent_bias == nullptr ? nullptr : to.recurrent_bias + 2 * u,
                      to.scratch);
  } else {
    const DeltaProduct<T> of_h[] = {{r.inner, u, u, kernel_of_h, 3 * u}};
    delta_products<T>(r.gates + 2 * u * s.stride(), u, s.columns(), s.stride(), of_h, nullptr,
                      to.scratch);
  }
}

#define LOCKSTEP_GRU_INSTANCES(EXTERN, T, reset_after)             \
  EXTERN(void gru_forward<T, reset_after>(const Recurrence<T>&));  \
  EXTERN(void gru_backward<T, reset_after>(const Recurrence<T>&)); \
  EXTERN(void gru_gradients<T, reset_after>(const Recurrence<T>&, const RecurrentGradients<T>&))
LOCKSTEP_GRU_INSTANCES(LOCKSTEP_EXTERN, float, true);
LOCKSTEP_GRU_INSTANCES(LOCKSTEP_EXTERN, float, false);
LOCKSTEP_GRU_INSTANCES(LOCKSTEP_EXTERN_DOUBLE, double, true);
LOCKSTEP_GRU_INSTANCES(LOCKSTEP_EXTERN_DOUBLE, double, false);
#undef LOCKSTEP_GRU_INSTANCES

}  // namespace lockstep::inline LOCKSTEP_ABI::kernels
