// What the tests of steps and of their updates share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/tensor_matrix.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/data/any_dataset.hpp"
#include "lockstep/data/batch_loader.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/step/parts.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/step/updaters/choose_updater.hpp"
#include "lockstep/strategies/any_strategy.hpp"
#include "support/model_testing.hpp"

namespace lockstep_test {

/// What has happened on this thread, in order: "backward( update 0-16 ) all-reduce 16-32 ".
inline thread_local std::string happened;

inline void note(const std::string& what) { happened += what + " "; }
inline void note(const std::string& what, std::size_t begin, std::size_t end) {
  note(what + " " + std::to_string(begin) + "-" + std::to_string(end));
}
/// What has happened since the last call.
inline std::string take_happened() { return std::exchange(happened, {}); }

/// What is used for steps on one rank, made as Trainer makes it.
template <class T = float>
struct Rank {
  lockstep::AnyReplica replica;
  lockstep::detail::Workspace<T> workspace;
  lockstep::detail::Parts<T> parts;

  template <class C>
  Rank(const lockstep::detail::Program<T>& program, lockstep::detail::Variables<T>& variables,
       C&& collective, int local_rank = 0, int local_size = 1)
      : replica(lockstep::any_collective(std::forward<C>(collective)), local_rank, local_size),
        workspace(program,
                  [this](std::size_t bytes) { return replica.collective().allocate(bytes); }),
        parts{program, variables, workspace, replica} {
    if (lockstep::detail::can_update_for_all(program, replica))
      variables.allocate_parameters(
          [this](std::size_t bytes) { return replica.collective().allocate(bytes); });
  }

  [[nodiscard]] auto updater() const { return lockstep::detail::choose_updater(parts); }
};

/// Batches of this many rows of a TinyData.
inline lockstep::BatchLoader<float> tiny_batches(int samples, std::size_t batch) {
  return lockstep::BatchLoader<float>{
      {lockstep::AnyDataset(RowDataset(TinyData(samples), batch)), {}}};
}

/// Draws the initial parameters.
template <class T>
void initialize(const lockstep::detail::Program<T>& program,
                const lockstep::detail::Variables<T>& variables, std::uint64_t seed = 1) {
  lockstep::detail::initialize<T>(program.layout().variables, variables.parameters().slices(),
                                  lockstep::RandomKey(seed));
}

/// Makes an update only after backward, whatever the updater that it has would do.
template <class T>
class LateUpdater final : public lockstep::detail::Updater<T> {
 public:
  LateUpdater(const lockstep::detail::Parts<T>& parts,
              std::unique_ptr<lockstep::detail::Updater<T>> updater)
      : lockstep::detail::Updater<T>(parts), updater_(std::move(updater)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "late"; }
  typename lockstep::detail::Updater<T>::Progress begin(
      const lockstep::detail::UpdateStep& step) override {
    (void)updater_->begin(step);
    return lockstep::detail::Updater<T>::Progress::none;
  }
  void ready(std::size_t) override {}
  bool finish() override { return updater_->finish(); }

 private:
  std::unique_ptr<lockstep::detail::Updater<T>> updater_;
};

struct OneVariable {
  std::array<lockstep::Variable, 1> list;
};

/// A Program of one array of parameters for a TinyData. Its gradients are all 1; backward tells how
/// far it has come at each of `ends`. It notes when backward begins and ends, and what is updated.
class MadeUpProgram : private OneVariable, public lockstep::detail::Program<float> {
  using Program = lockstep::detail::Program<float>;

 public:
  explicit MadeUpProgram(std::size_t size, std::size_t slots = 0)
      : OneVariable{{lockstep::Variable{"kernel", {size}, nullptr}}},
        Program({.variables = OneVariable::list,
                 .state_variables = {},
                 .inputs = 4,
                 .targets = 1,
                 .outputs = 3,
                 .metric_state = 0,
                 .slots = slots,
                 .data = {.input = input_shape, .targets = 1}}) {}

  void constrain(const lockstep::Constraint& constraint) { list[0].constraint = constraint; }

  std::vector<std::size_t> ends{};  ///< of the gradients that are ready, one after the other
  std::function<void(std::size_t)> after_end{};  ///< is told each of `ends`
  /// Where the parameters are, for "update 0-16"; where they are not there, it is "update 16
  /// elements".
  std::span<const float> parameters{};
  lockstep::detail::UpdateRules rules{};

  [[nodiscard]] lockstep::detail::ProgramNames names() const override {
    return {.layers = {"made_up"},
            .variables = {"made_up/kernel"},
            .state_variables = {},
            .order = {{.is_trained = true, .index = 0}}};
  }
  [[nodiscard]] std::string input_description() const override { return "input: (4)"; }
  [[nodiscard]] std::string parts_description() const override { return "made up"; }
  [[nodiscard]] std::size_t scratch(std::size_t) const override { return 0; }
  void forward(const lockstep::ForwardPass<float>& pass) const override {
    pass.y.matrix().setZero();
  }
  void backward(const lockstep::BackwardPass<float>& pass) const override {
    note("backward(");
    for (float& gradient : pass.gradients[0]) gradient = 1;
    for (const std::size_t end : ends) {
      pass.context.gradients_ready(pass.gradients, end);
      pass.context.variables_done(pass.gradients, end);
      if (after_end) after_end(end);
    }
    note(")");
  }
  void each_output(const lockstep::ForwardPass<float>&, EachOutput) const override {}
  void compute_loss(lockstep::TensorView<const float>, lockstep::TensorView<const float>,
                    std::span<double> losses, lockstep::TensorView<float>) const override {
    for (double& loss : losses) loss = 1;
  }
  [[nodiscard]] bool ignore(lockstep::TensorView<const float>, std::span<float>) const override {
    return false;
  }
  void update_metrics(lockstep::TensorView<const float>, lockstep::TensorView<const float>,
                      std::span<const float>, std::span<const float>,
                      std::span<double>) const override {}
  void report_metrics(std::span<const double>, lockstep::Logs&, const std::string&) const override {
  }
  void update(const lockstep::UpdateContext& context, std::span<float> values,
              std::span<const float> gradients, std::span<float* const>) const override {
    const std::less_equal<const float*> before;
    if (before(parameters.data(), values.data()) &&
        before(values.data(), parameters.data() + parameters.size())) {
      const auto begin = static_cast<std::size_t>(values.data() - parameters.data());
      note("update", begin, begin + values.size());
    } else {
      note("update " + std::to_string(values.size()) + " elements");
    }
    const auto rate = static_cast<float>(context.learning_rate * context.gradient_scale);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= rate * gradients[i];
  }
  [[nodiscard]] double initial_learning_rate() const override { return 0.5; }
  [[nodiscard]] double initial_slot_value() const override { return 0; }
  [[nodiscard]] lockstep::detail::UpdateRules update_rules() const override { return rules; }

 private:
  static constexpr std::array<std::size_t, 1> input_shape{4};
};

/// A rank of several without the others: sums are its own numbers. It notes what it is asked
/// for.
class LonelyCollective : public lockstep::AnyCollective {
 public:
  explicit LonelyCollective(int size, const Abilities& can = {},
                            lockstep::Overlap overlap = lockstep::Overlap::off)
      : AnyCollective(0, size, can, overlap) {}

  /// Where the gradients of this thread begin.
  static inline thread_local const float* gradients = nullptr;

  void all_reduce(lockstep::NumberSpan, lockstep::ReduceOp) override {}
  void all_reduce(std::span<double>, lockstep::NumberSpan values) override {
    if (values.type() == lockstep::DataType::float32) note_range("all-reduce", values.as<float>());
  }
  void broadcast(std::span<std::byte>, int) override {}
  void all_gather(std::span<const std::byte>, std::span<std::byte>) override {}
  void barrier() override {}
  void abort(std::string_view, lockstep::ExitCode) noexcept override {}

 protected:
  static void note_range(const std::string& what, std::span<const float> values) {
    const auto begin = static_cast<std::size_t>(values.data() - gradients);
    note(what, begin, begin + values.size());
  }
};

}  // namespace lockstep_test
