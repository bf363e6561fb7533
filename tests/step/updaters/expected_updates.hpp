// The updates of several ranks from their definition, for the tests of all routes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "step/step_testing.hpp"
#include "support/model_testing.hpp"

namespace lockstep_test {

/// Only reductions and updates are used of it; backward is made up.
template <class Net, class Optimizer = lockstep::SGD>
using Updated =
    lockstep::detail::Compiled<Net, float, lockstep::SparseCategoricalCrossentropy, Optimizer>;
/// With more parameters than fit into a short message, and gaps between them.
using LargeNet = lockstep::Sequential<lockstep::Input<300>, UserDense<70>, UserDense<5>>;
using SmallNet = lockstep::Sequential<lockstep::Input<5>, UserDense<3>>;
/// More than one range of reductions that overlap with backward.
using OverlapNet = lockstep::Sequential<lockstep::Input<1500>, UserDense<600>, UserDense<3>>;

/// Passes its input on, and has a moving figure.
struct Moving : UserReLU {
  template <class In>
  static constexpr std::array state_variables{lockstep::Variable{"moving", {2}, nullptr}};
};
using MovingProgram = Updated<lockstep::Sequential<lockstep::Input<4>, UserDense<3>, Moving>>;

/// The gradients of a rank in a step, in all variables.
inline void draw(const lockstep::Arena<float>& gradients, int rank, int step) {
  for (std::size_t i = 0; i < gradients.slices().size(); ++i) {
    const auto slice = gradients.slices()[i];
    const int key = 1000 * step + 10 * static_cast<int>(i) + rank;
    const auto numbers = lockstep_test::random_numbers<float>(key, slice.size());
    std::copy(numbers.begin(), numbers.end(), slice.begin());
  }
}

inline std::vector<float> copy(std::span<const float> values) {
  return {values.begin(), values.end()};
}

inline double samples_of(int rank) { return rank + 1.0; }

/// The parameters after each step, from the definition: gradients are summed in the order of the
/// contract, and all of them used at once.
inline std::vector<std::vector<float>> expected_steps(
    const lockstep::detail::Program<float>& program, int ranks, int steps) {
  lockstep::detail::Variables<float> variables(program);
  initialize(program, variables);
  double samples = 0;
  for (int rank = 0; rank < ranks; ++rank) samples += samples_of(rank);
  std::vector<std::vector<float>> all{copy(variables.parameters().values())};
  for (int step = 1; step <= steps; ++step) {
    std::vector<std::vector<float>> gradients;
    for (int rank = 0; rank < ranks; ++rank) {
      const lockstep::Arena<float> drawn(program.layout().variables);
      draw(drawn, rank, step);
      gradients.push_back(copy(drawn.values()));
    }
    const std::vector<float> sums = lockstep_test::contract_sum(gradients);
    if (variables.clips_by_norm())
      variables.norms().compute_part(std::span<const float>(sums), 0, 1);
    variables.update(variables.parameters().values(), sums, 0, samples, step);
    all.push_back(copy(variables.parameters().values()));
  }
  return all;
}

/// The update of step `number` with drawn gradients, which become ready one piece after the other.
inline void make_update(const lockstep::detail::Parts<float>& parts,
                        lockstep::detail::Updater<float>& updater, int number, double samples,
                        double non_finite = 0) {
  using Progress = lockstep::detail::Updater<float>::Progress;
  using lockstep::detail::StatusBlock;
  draw(parts.workspace.gradients(), parts.replica.collective().rank(), number);
  StatusBlock& status = parts.workspace.status();
  status.clear();
  status[StatusBlock::samples] = samples;
  status[StatusBlock::rows] = samples;
  status[StatusBlock::non_finite] = non_finite;
  const auto progress = updater.begin({.iteration = number, .stop_on_non_finite = true});
  const std::size_t size = parts.workspace.gradients().values().size();
  if (progress != Progress::none)
    for (const std::size_t ready : {size / 3, size / 2, size}) updater.ready(ready);
  updater.finish();
}

/// A worker with one replica, as MultiWorkerMirroredStrategy and Trainer make it.
struct Worker {
  std::shared_ptr<lockstep::AnyCollective> outer;
  lockstep::HierarchicalGroup group;
  lockstep::detail::Variables<float> variables;
  Rank<float> rank;
  std::unique_ptr<lockstep::detail::Updater<float>> updater;

  template <class Outer>
  Worker(Outer& between_workers, const lockstep::detail::Program<float>& program,
         const lockstep::CommunicationOptions& options = {})
      : outer(lockstep::any_collective(between_workers)),
        group(1, outer.get(), options),
        variables(program),
        rank(program, variables, std::make_shared<lockstep::Hierarchical>(group, 0)),
        updater(rank.updater()) {
    initialize(program, variables);
  }

  [[nodiscard]] std::vector<float> parameters() const {
    return copy(variables.parameters().values());
  }
  void step(int number, double samples, double non_finite = 0) {
    make_update(rank.parts, *updater, number, samples, non_finite);
  }
};

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error(what);
}

inline double sum_of_magnitudes(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += std::abs(static_cast<double>(value));
  return sum;
}
inline void require_zeros_between_slices(const lockstep::Arena<float>& arena) {
  double in_slices = 0;
  for (const auto slice : arena.slices()) in_slices += sum_of_magnitudes(slice);
  const double in_all = sum_of_magnitudes(arena.values());
  require(std::abs(in_all - in_slices) <= 1e-9 * in_all, "not zero between slices");
}

/// Some steps of workers have the parameters of the definition, by the route of this name.
template <class Family>
void check_steps(const lockstep::detail::Program<float>& program, int ranks,
                 const std::string& route, const lockstep::CommunicationOptions& options = {}) {
  CAPTURE(ranks);
  constexpr int steps = 4;
  const auto expected = expected_steps(program, ranks, steps);
  const bool swaps = route.find("shared memory") != std::string::npos;
  Family::run(ranks, [&](auto& collective) {
    Worker worker(collective, program, options);
    require(worker.updater->name() == route, "the route is " + std::string(worker.updater->name()));
    for (int step = 1; step <= steps; ++step) {
      const float* const before = worker.variables.parameters().values().data();
      worker.step(step, samples_of(collective.rank()));
      const auto& status = worker.rank.workspace.status();
      require(status[lockstep::detail::StatusBlock::samples] == ranks * (ranks + 1) / 2.0,
              "samples");
      require(worker.parameters() == expected[static_cast<std::size_t>(step)], "bits");
      require((worker.variables.parameters().values().data() != before) == swaps,
              "the arenas are swapped");
    }
    worker.step(steps + 1, 0);
    require(worker.parameters() == expected.back(), "changed without samples");
    worker.step(steps + 1, 1, collective.rank() == 0 ? 1 : 0);
    require(worker.parameters() == expected.back(), "changed by a loss that is not finite");
    require_zeros_between_slices(worker.variables.parameters());
    require_zeros_between_slices(worker.rank.workspace.gradients());
  });
}

}  // namespace lockstep_test
