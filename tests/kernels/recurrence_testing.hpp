// The arrays of a recurrence, with random numbers, and what is checked of each kind of it.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "lockstep/kernels/recurrence.hpp"
#include "support/instruction_sets.hpp"
#include "support/random_array.hpp"

namespace lockstep_test {

struct RecurrenceCase {
  lockstep::kernels::RecurrenceSize size;
  bool has_mask = false;
  bool has_dropout = false;
  bool has_recurrent_bias = false;
};

template <class T>
struct RecurrenceRig {
  RecurrenceCase what;
  lockstep::kernels::RecurrenceSize size = what.size;
  std::size_t rows = size.gates * size.units, batch = size.batch(), columns = size.columns(),
              states_size = size.units * size.state_columns();
  std::mt19937 random{7};
  Array<T> inputs{size.inputs * columns}, kernel{size.inputs * rows},
      recurrent_kernel{size.units * rows}, bias{rows}, recurrent_bias{rows}, mask{columns},
      dropout{size.units * size.batch()};
  Array<T> gates{rows * columns}, states{states_size}, dropped{states_size}, inner{states_size},
      gradients{size.units * columns}, carry{size.units * size.batch()},
      product{size.units * size.batch()};
  Array<T> dy{size.units * columns};
  Array<T> d_kernel{kernel.size()}, d_recurrent_kernel{recurrent_kernel.size()}, d_bias{rows},
      d_recurrent_bias{rows}, d_inputs{inputs.size()},
      scratch{lockstep::kernels::delta_products_scratch(rows)};

  explicit RecurrenceRig(const RecurrenceCase& which) : what(which) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (const Array<T>* array : {&kernel, &recurrent_kernel, &bias, &recurrent_bias})
      for (T& value : *array) value = static_cast<T>(uniform(random));
    // (So that a state forgets: else small changes grow from step to step.)
    for (T& value : recurrent_kernel)
      value /= static_cast<T>(std::sqrt(static_cast<double>(size.units)));
    for (const Array<T>* array :
         {&gates, &states, &dropped, &inner, &d_kernel, &d_recurrent_kernel, &d_bias})
      for (T& value : *array) value = T(77);
    for (std::size_t t = 0; t < size.steps; ++t)
      for (std::size_t s = 0; s < size.batch(); ++s) {
        const std::size_t column = t * size.batch() + s;
        mask[column] = T((t + s) % 3 != 1);
        const bool real = s < size.samples;
        for (std::size_t f = 0; f < size.inputs; ++f)
          inputs[(t * size.inputs + f) * batch + s] = real ? T(uniform(random)) : T(0);
        for (std::size_t u = 0; u < size.units; ++u)
          dy[(t * size.units + u) * batch + s] = real ? T(uniform(random)) : T(0);
      }
    for (std::size_t i = 0; i < dropout.size(); ++i) dropout[i] = i % 3 == 0 ? T(0) : T(1.5);
  }

  lockstep::kernels::Recurrence<T> arrays() const {
    return {.size = size,
            .inputs = inputs.data(),
            .kernel = kernel.data(),
            .recurrent_kernel = recurrent_kernel.data(),
            .bias = bias.data(),
            .recurrent_bias = what.has_recurrent_bias ? recurrent_bias.data() : nullptr,
            .mask = what.has_mask ? mask.data() : nullptr,
            .dropout = what.has_dropout ? dropout.data() : nullptr,
            .gates = gates.data(),
            .states = states.data(),
            .dropped = what.has_dropout ? dropped.data() : states.data(),
            .inner = inner.data(),
            .gradients = gradients.data(),
            .carry = carry.data(),
            .product = product.data()};
  }

  lockstep::kernels::RecurrentGradients<T> weight_gradients() const {
    return {d_kernel.data(), d_recurrent_kernel.data(), d_bias.data(),
            what.has_recurrent_bias ? d_recurrent_bias.data() : nullptr, scratch.data()};
  }

  /// State `u` of sample `s` after step `t`.
  T state(std::size_t u, std::size_t t, std::size_t s) const {
    return states[size.units * (t * batch + size.first_after()) + u * batch + s];
  }
};

/// The states of sample s after each step, in the order of time, by plain loops. `Cell::step(z, x,
/// h, c)` gives the new state from the products of the inputs (gate by gate, with bias),
/// `recurrent(g, h)`, the state, and an inner state that it may change.
template <class T, class Step>
std::vector<std::vector<double>> expected_states(const RecurrenceRig<T>& rig, std::size_t s,
                                                 const Step& step) {
  const auto& size = rig.size;
  std::vector<double> h(size.units), c(size.units);
  std::vector<std::vector<double>> all(size.steps);
  for (std::size_t i = 0; i < size.steps; ++i) {
    const std::size_t t = size.step(i), column = t * size.batch() + s;
    if (!rig.what.has_mask || rig.mask[column] != 0) {
      std::vector<double> z(rig.rows);
      for (std::size_t g = 0; g < rig.rows; ++g) {
        z[g] = static_cast<double>(rig.bias[g]);
        for (std::size_t f = 0; f < size.inputs; ++f)
          z[g] += static_cast<double>(rig.kernel[f * rig.rows + g]) *
                  static_cast<double>(rig.inputs[(t * size.inputs + f) * rig.batch + s]);
      }
      std::vector<double> dropped = h;
      if (rig.what.has_dropout)
        for (std::size_t u = 0; u < size.units; ++u)
          dropped[u] *= static_cast<double>(rig.dropout[u * size.batch() + s]);
      const auto recurrent = [&](std::size_t g, const std::vector<double>& from) {
        double sum = rig.what.has_recurrent_bias ? static_cast<double>(rig.recurrent_bias[g]) : 0;
        for (std::size_t u = 0; u < size.units; ++u)
          sum += static_cast<double>(rig.recurrent_kernel[u * rig.rows + g]) * from[u];
        return sum;
      };
      step(z, recurrent, dropped, h, c);
    }
    all[t] = h;
  }
  return all;
}

inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Runs Kind::forward and compares all states with expected_states.
template <class Kind, class T>
void check_states(const RecurrenceCase& what) {
  RecurrenceRig<T> rig(what);
  Kind::forward(rig.arrays());
  double worst = 0;
  for (std::size_t s = 0; s < rig.size.samples; ++s) {
    const auto expected = expected_states(rig, s, Kind::step);
    for (std::size_t t = 0; t < rig.size.steps; ++t)
      for (std::size_t u = 0; u < rig.size.units; ++u)
        worst = std::max(worst, std::abs(static_cast<double>(rig.state(u, t, s)) - expected[t][u]));
  }
  CHECK(worst < 100 * static_cast<double>(std::numeric_limits<T>::epsilon()));
}

/// Compares all gradients with central differences, in double.
template <class Kind>
void check_recurrence_gradients(const RecurrenceCase& what) {
  RecurrenceRig<double> rig(what);
  const auto& size = rig.size;
  const auto loss = [&] {
    Kind::forward(rig.arrays());
    double sum = 0;
    for (std::size_t u = 0; u < size.units; ++u)
      for (std::size_t t = 0; t < size.steps; ++t)
        for (std::size_t s = 0; s < size.samples; ++s)
          sum += rig.state(u, t, s) * rig.dy[(t * size.units + u) * rig.batch + s];
    return sum;
  };
  loss();
  std::copy(rig.dy.begin(), rig.dy.end(), rig.gradients.begin());
  Kind::backward(rig.arrays());
  Kind::gradients(rig.arrays(), rig.weight_gradients());
  lockstep::kernels::recurrent_input_gradient<double>(rig.arrays(), rig.d_inputs.data(), false);
  double worst = 0;
  const auto compare = [&](const Array<double>& values, const Array<double>& gradient,
                           bool is_input) {
    const std::size_t every = values.size() < 100 ? 1 : values.size() / 61;
    for (std::size_t i = 0; i < values.size(); i += every) {
      if (is_input && i % rig.batch >= size.samples) continue;
      const double saved = values[i];
      constexpr double h = 1e-5;
      values[i] = saved + h;
      const double above = loss();
      values[i] = saved - h;
      const double below = loss();
      values[i] = saved;
      worst = std::max(worst, std::abs(gradient[i] - (above - below) / (2 * h)));
    }
  };
  compare(rig.kernel, rig.d_kernel, false);
  compare(rig.recurrent_kernel, rig.d_recurrent_kernel, false);
  compare(rig.bias, rig.d_bias, false);
  if (what.has_recurrent_bias) compare(rig.recurrent_bias, rig.d_recurrent_bias, false);
  if (size.samples > 0) compare(rig.inputs, rig.d_inputs, true);
  CHECK(worst < 1e-8);
}

/// States, gradients, and equal bits of a sample whatever its row, on each instruction set.
template <class Kind>
void check_recurrence(std::size_t gates, bool has_recurrent_bias = false) {
  for_each_instruction_set([&] {
    for (const std::size_t samples : {0u, 1u, 3u, 17u})
      for (const std::size_t steps : {1u, 5u})
        for (const int how : {0, 1, 2, 3}) {
          const bool has_mask = how == 1 || how == 3, has_dropout = how >= 2,
                     reverse = how % 2 == 1;
          CAPTURE(samples);
          CAPTURE(steps);
          CAPTURE(how);
          const RecurrenceCase what{.size = {.inputs = 3,
                                             .units = 5,
                                             .gates = gates,
                                             .samples = samples,
                                             .steps = steps,
                                             .reverse = reverse},
                                    .has_mask = has_mask,
                                    .has_dropout = has_dropout,
                                    .has_recurrent_bias = has_recurrent_bias};
          check_states<Kind, float>(what);
          check_recurrence_gradients<Kind>(what);
        }
    // Several blocks of summands, of steps, and of columns of deltas.
    check_states<Kind, float>(
        {.size = {.inputs = 130, .units = 24, .gates = gates, .samples = 16, .steps = 21}});
    check_recurrence_gradients<Kind>(
        {.size = {.inputs = 4, .units = 33, .gates = gates, .samples = 2, .steps = 20}});
  });
}

}  // namespace lockstep_test
