#include "lockstep/step/step.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/policies/single.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "step/step_testing.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;
using Status = ls::detail::StatusBlock;

namespace {

/// Counts the samples of all predictions.
struct Samples {
  static constexpr std::string_view name = "samples";
  static constexpr std::size_t state_size = 1;
  void update(auto predictions, auto, auto, std::span<double> state) const {
    state[0] += static_cast<double>(predictions.samples());
  }
  double result(std::span<const double> state) const { return state[0]; }
};
/// Passes its input on, and counts the batches that it has seen in training.
struct Moving : UserReLU {
  template <class In>
  static constexpr std::array state_variables{ls::Variable{"moving", {2}, nullptr}};
  template <class In, class T>
  static void forward(const ls::ForwardPass<T>& pass) {
    UserReLU::forward<In, T>(pass);
    if (pass.context.training) pass.state[0][0] += 1;
  }
};
using Net = ls::Sequential<ls::Input<4>, UserDense<3>, Moving>;
using Program = ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, ls::SGD,
                                     Samples, ls::Accuracy>;

/// All that a step needs, on one rank.
struct Setup {
  Program program{{.from_logits = true}, {.learning_rate = 0.5, .momentum = 0.9}, {}};
  ls::detail::Variables<float> variables{program};
  Rank<float> rank{program, variables, ls::Single{}};
  std::unique_ptr<ls::detail::Updater<float>> updater = rank.updater();
  TinyData rows{7};
  std::unique_ptr<ls::BatchLoader<float>> data;

  Setup() {
    initialize(program, variables);
    begin();
  }
  void begin() {
    data = std::make_unique<ls::BatchLoader<float>>(
        ls::DistributedDataset<ls::AnyDataset>{ls::AnyDataset(RowDataset(rows, 5)), {}});
    data->begin({});
  }
  const Status& step(const ls::detail::TrainStep& told = {}) {
    ls::detail::train_step(rank.parts, *updater, *data, told);
    return rank.workspace.status();
  }
  std::vector<float> values() const {
    std::vector<float> all;
    for (const auto& arena : {variables.parameters().values(), variables.slots()[0].values(),
                              rank.workspace.state().values()})
      all.insert(all.end(), arena.begin(), arena.end());
    return all;
  }
};

}  // namespace

TEST_CASE("train_step: counts the samples, and says whether there is more and whether to stop") {
  Setup setup;
  const Status first = setup.step();
  CHECK(first[Status::samples] == 5);
  CHECK(first[Status::has_next] == 1);
  CHECK(first[Status::stop] == 0);
  CHECK(first[Status::loss_sum] > 0);
  CHECK(first.metrics()[0] == 5);
  CHECK(first.metrics()[2] == 5);
  const Status second = setup.step({.requests = {.stop = true}});
  CHECK(second[Status::samples] == 2);
  CHECK(second[Status::has_next] == 0);
  CHECK(second[Status::stop] == 1);
}

TEST_CASE("train_step: without samples nothing is changed, no parameter and no moment") {
  Setup setup;
  setup.step();
  setup.step();
  const auto before = setup.variables.parameters_crc32c();
  const std::vector<float> moments(setup.variables.slots()[0].values().begin(),
                                   setup.variables.slots()[0].values().end());
  const Status& nothing = setup.step();
  CHECK(nothing[Status::samples] == 0);
  CHECK(nothing[Status::loss_sum] == 0);
  CHECK(setup.variables.parameters_crc32c() == before);
  const auto after = setup.variables.slots()[0].values();
  CHECK(std::vector<float>(after.begin(), after.end()) == moments);
}

TEST_CASE(
    "train_step: a loss that is not finite is counted, with its source; with stop_on_non_finite "
    "nothing changes") {
  Setup setup;
  setup.step();
  const std::vector<float> before = setup.values();
  setup.rows.x(2, 1) = std::numeric_limits<float>::quiet_NaN();
  setup.begin();
  const Status& status = setup.step({.iteration = 1, .stop_on_non_finite = true});
  CHECK(status[Status::samples] == 5);
  CHECK(status[Status::non_finite] == 1);
  CHECK(setup.rank.workspace.non_finite.source == "the input, sample 2 of the data");
  CHECK(setup.values() == before);  // nor the untrained state
  setup.begin();
  CHECK(setup.step({.iteration = 1})[Status::non_finite] == 1);
  CHECK(setup.values() != before);
}

TEST_CASE(
    "train_step: what is thrown in forward or in the loss leaves the parameters, and the state can "
    "be undone") {
  Setup setup;
  setup.step();
  const std::vector<float> before = setup.values();
  setup.rows.y[3] = 9;
  setup.begin();
  CHECK(contains(message_of<ls::DataError>([&] { setup.step({.iteration = 1}); }), "sample 3"));
  setup.rank.workspace.undo_step();
  CHECK(setup.values() == before);
}

TEST_CASE(
    "forward_batch: tells layers of the step, and makes the padding finite whatever the dataset "
    "left there") {
  Setup setup;
  auto& workspace = setup.rank.workspace;
  const ls::detail::TrainStep third{.iteration = 3};
  CHECK(setup.data->next());
  setup.variables.seed = 9;
  const ls::StepContext context =
      ls::detail::forward_batch(setup.rank.parts, *setup.data, true, &third);
  CHECK(context.training);
  CHECK(context.step == 3);
  CHECK(context.seed == 9);
  CHECK(context.sample_indices.size() == 5);
  CHECK(context.sample_indices[4] == 4);
  for (std::size_t i = 5; i < 16; ++i) {
    for (std::size_t f = 0; f < 4; ++f) CHECK(workspace.x()(i, f) == 0.0F);
    CHECK(workspace.targets()(i, 0) == 0.0F);
  }
  const ls::StepContext none =
      ls::detail::forward_batch(setup.rank.parts, *setup.data, false, &third);
  CHECK(none.sample_indices.empty());
  CHECK(workspace.x().samples() == 0);
  CHECK_FALSE(ls::detail::forward_batch(setup.rank.parts, *setup.data, true).training);
}

TEST_CASE("forward_batch: cross_replica_sum is over all replicas, and in training alone") {
  const Program program({.from_logits = true}, {}, {});
  ls::detail::Variables<float> variables(program);
  ls::InProcessGroup group(4, lockstep_test::patient_options());
  std::array<std::vector<double>, 4> sums;
  lockstep_test::rethrow_first(lockstep_test::run_threads(4, [&](int number) {
    const Rank rank(program, variables, group.member(number), number, 4);
    auto data = tiny_batches(5, 5);
    auto& mine = sums.at(static_cast<std::size_t>(number));
    mine = {1.0 * number, 100};
    const ls::detail::TrainStep step;
    ls::detail::forward_batch(rank.parts, data, false, &step).cross_replica_sum(mine);
    ls::detail::forward_batch(rank.parts, data, false).cross_replica_sum(mine);  // nothing
  }));
  for (const auto& sum : sums) CHECK(sum == std::vector<double>{6, 400});
}

TEST_CASE("test_step: adds to the sums, and changes no parameter and no state") {
  Setup setup;
  const std::vector<float> before = setup.values();
  Status sums(setup.program.layout().metric_state);
  double expected = 0;
  while (setup.data->next()) {
    ls::detail::test_step(setup.rank.parts, *setup.data, sums);
    for (const double loss : setup.rank.workspace.losses()) expected += loss;
  }
  CHECK(sums[Status::samples] == 7);
  CHECK(sums[Status::loss_sum] == doctest::Approx(expected).epsilon(1e-14));
  CHECK(sums[Status::rows] == 7);
  CHECK(sums[Status::non_finite] == 0);
  CHECK(sums.metrics()[0] == 7);
  CHECK(sums.metrics()[2] == 7);
  CHECK(setup.values() == before);
  setup.rows.x.setConstant(std::numeric_limits<float>::infinity());
  setup.begin();
  CHECK(setup.data->next());
  ls::detail::test_step(setup.rank.parts, *setup.data, sums);
  CHECK(sums[Status::non_finite] == 1);
}

TEST_CASE("report: means, the loss first, with a prefix when there is one; without samples 0") {
  const Program program({.from_logits = true}, {}, {});
  Status status(program.layout().metric_state);
  ls::Logs logs;
  ls::detail::report<float>(program, status, logs);
  CHECK(logs.at("loss") == 0);
  status[Status::samples] = 4;
  status[Status::rows] = 4;
  status[Status::loss_sum] = 10;
  status.metrics()[0] = 7;
  ls::detail::report<float>(program, status, logs);
  ls::detail::report<float>(program, status, logs, "val_");
  std::vector<std::string> keys;
  for (const auto& [key, value] : logs) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"loss", "samples", "accuracy", "val_loss", "val_samples",
                                         "val_accuracy"});
  CHECK(logs.at("val_loss") == 2.5);
  CHECK(logs.at("samples") == 7);
}
