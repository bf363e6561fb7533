// The recurrence of a GRU.
#pragma once

#include <algorithm>
#include <cstddef>

#include "lockstep/core/config.hpp"
#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/elementary.hpp"
#include "lockstep/kernels/pack.hpp"
#include "lockstep/kernels/recurrence.hpp"

// Gates in the order z, r, h; a is Activation (tanh), s is Recurrent (the logistic function), U the
// recurrent kernel, q = h U + recurrent bias for gate h:
//   h' = s(z) h + (1 - s(z)) hh, with hh = a(h gate + s(r) q)        reset after the product
//                                   hh = a(h gate + (s(r) h) U)      reset before it
// Recurrence::inner is q, then its gradient; or s(r) h. It is at the columns of the step.

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace kernels {

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
      T* const gates = r.gates_of(i) + (s.units + unit) * s.batch();
      const T* const before = r.before(r.dropped, i) + unit * s.batch();
      T* const to = r.own(r.inner, i) + unit * s.batch();
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
    const std::size_t batch = s.batch(), next_gate = s.units * batch;
    const T* const mask = r.mask == nullptr ? nullptr : r.mask + s.column(i);
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      const std::size_t row = unit * batch;
      T* const gates = r.gates_of(i) + row;
      for (std::size_t b = 0; b < batch; b += P::size) {
        const P update = Recurrent::value(P(gates + b));
        P inside(gates + 2 * next_gate + b);
        if constexpr (ResetAfter) {
          const P reset = Recurrent::value(P(gates + next_gate + b));
          reset.store(gates + next_gate + b);
          inside = multiply_add(reset, P(r.own(r.inner, i) + row + b), inside);
        }
        const P candidate = Activation::value(inside);
        const P before(r.before(r.states, i) + row + b);
        P state = multiply_add(update, before, (P(T(1)) - update) * candidate);
        if (mask != nullptr) state = select(P(mask + b) != P(T(0)), state, before);
        update.store(gates + b);
        candidate.store(gates + 2 * next_gate + b);
        state.store(r.after(r.states, i) + row + b);
        if (r.dropout != nullptr)
          (state * P(r.dropout + row + b)).store(r.after(r.dropped, i) + row + b);
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
    const std::size_t batch = s.batch(), next_gate = s.units * batch;
    const T* const mask = r.mask == nullptr ? nullptr : r.mask + s.column(i);
    const std::size_t next = i > 0 ? i - 1 : 0;
    const P zero(T(0)), one(T(1));
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      const std::size_t row = unit * batch;
      T* const gates = r.gates_of(i) + row;
      for (std::size_t b = 0; b < batch; b += P::size) {
        // (The prefetchers look for what follows, and the next step lies before this one.)
#pragma GCC unroll 3
        for (std::size_t gate = 0; gate < 3; ++gate)
          __builtin_prefetch(r.gates_of(next) + row + gate * next_gate + b);
        __builtin_prefetch(r.own(r.gradients, next) + row + b);
        const P update(gates + b), candidate(gates + 2 * next_gate + b);
        const P before(r.before(r.states, i) + row + b);
        const P gradient(r.own(r.gradients, i) + row + b);
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
          T* const inner = r.own(r.inner, i) + row + b;
          const P reset(gates + next_gate + b);
          Recurrent::gradient(inside * P(inner), reset).store(gates + next_gate + b);
          (inside * reset).store(inner);
        }
        if (i > 0) {
          T* const to = r.own(r.gradients, i - 1) + row + b;
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
    const std::size_t batch = s.batch();
    for (std::size_t unit = 0; unit < s.units; ++unit) {
      const std::size_t row = unit * batch;
      T* const gates = r.gates_of(i) + s.units * batch + row;
      const T* const before = r.before(r.dropped, i) + row;
      for (std::size_t b = 0; b < batch; b += P::size) {
        const P reset(gates + b);
        const P product(r.carry + row + b);
        Recurrent::gradient(product * P(before + b), reset).store(gates + b);
        if (i == 0) continue;
        P past = product * reset;
        if (r.dropout != nullptr) past *= P(r.dropout + row + b);
        T* const to = r.own(r.gradients, i - 1) + row + b;
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
  detail::clear_first_state(r, r.states);
  detail::clear_first_state(r, r.dropped);
  for (std::size_t i = 0; i < s.steps; ++i) {
    const T* const before = r.before(r.dropped, i);
    detail::input_product(r, i);
    detail::recurrent_product<T>(r, i, 0, 2 * u, before, r.recurrent_bias);
    if constexpr (ResetAfter) {
      multiply<T>({r.own(r.inner, i), u, s.batch(), s.batch()}, r.recurrent_kernel + 2 * u, before,
                  u, {.a_row = 1, .a = 3 * u, .b = {s.batch()}},
                  r.recurrent_bias == nullptr ? nullptr : r.recurrent_bias + 2 * u);
    } else {
      dispatch(detail::GruReset<T, Recurrent>{r, i});
      detail::recurrent_product<T>(r, i, 2 * u, u, r.own(r.inner, i));
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
    const T* const gates = r.gates_of(i);
    dispatch(detail::GruBackStep<T, ResetAfter, Activation, Recurrent>{r, i});
    if constexpr (!ResetAfter) {
      detail::back_product<T>(r, 2 * u, u, gates + 2 * u * s.batch(), r.carry);
      dispatch(detail::GruBackReset<T, Recurrent>{r, i});
    }
    if (i == 0) continue;
    detail::back_to_state<T>(r, i, 0, 2 * u, gates);
    if constexpr (ResetAfter) detail::back_to_state<T>(r, i, 2 * u, u, r.own(r.inner, i));
  }
}

/// The gradients of the weights, after gru_backward.
template <class T, bool ResetAfter>
void gru_gradients(const Recurrence<T>& r, const RecurrentGradients<T>& to) {
  const RecurrenceSize& s = r.size;
  const std::size_t u = s.units;
  const T* const before = r.dropped + u * s.first_before();
  const auto deltas = [&](const T* data, std::size_t count, std::size_t features) {
    return Deltas<T>{data, count, features, s.steps, s.batch()};
  };
  const DeltaProduct<T> all[] = {{r.inputs, s.inputs, 3 * u, to.kernel, 3 * u},
                                 {before, u, 2 * u, to.recurrent_kernel, 3 * u}};
  delta_products<T>(deltas(r.gates, 3 * u, 3 * u), all, to.bias, to.scratch);
  T* const kernel_of_h = to.recurrent_kernel + 2 * u;
  if constexpr (ResetAfter) {
    if (to.recurrent_bias != nullptr) std::copy_n(to.bias, 2 * u, to.recurrent_bias);
    const DeltaProduct<T> of_h[] = {{before, u, u, kernel_of_h, 3 * u}};
    delta_products<T>(deltas(r.inner, u, u), of_h,
                      to.recurrent_bias == nullptr ? nullptr : to.recurrent_bias + 2 * u,
                      to.scratch);
  } else {
    const DeltaProduct<T> of_h[] = {{r.inner, u, u, kernel_of_h, 3 * u}};
    delta_products<T>(deltas(r.gates + 2 * u * s.batch(), u, 3 * u), of_h, nullptr, to.scratch);
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

}}}  // namespace lockstep::kernels
