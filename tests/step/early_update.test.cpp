#include "lockstep/step/early_update.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/flatten.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshape.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/step/compiled.hpp"
#include "lockstep/step/step.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Notes what is updated: [begin, end) for each call.
struct Updates {
  using Scalar = float;
  using Status = ls::detail::StatusBlock<0>;
  std::vector<std::pair<std::size_t, std::size_t>>& ranges;
  void update(std::span<const float> gradients, std::size_t begin, double samples, std::int64_t iteration) const {
    CHECK(samples == 5);
    CHECK(iteration == 3);
    ranges.emplace_back(begin, begin + gradients.size());
  }
};

/// All kinds of layers: with large kernels and small ones, and one (UserDense) that announces nothing.
using Net = ls::Sequential<ls::Input<4>, ls::Dense<600, ls::ReLU>, ls::Dense<64, ls::ReLU>, ls::Reshape<4, 4, 4>,
                           ls::Conv2D<48, 3, ls::ReLU>, ls::BatchNormalization<>, ls::Flatten, UserDense<200>,
                           ls::Dense<200, ls::ReLU>, ls::Dense<3>>;

/// Parameters and slots after some steps.
template <class Optimizer>
std::vector<float> train(const Optimizer& optimizer, ls::Trace* trace) {
  using Compiled = ls::detail::Compiled<Net, float, ls::SparseCategoricalCrossentropy, Optimizer>;
  ls::CollectiveReplica<ls::Single> replica{ls::Single{}, 0, 1};
  Compiled compiled{{.from_logits = true}, optimizer, {}};
  typename Compiled::Replica own{[](std::size_t bytes) { return ls::Buffer(bytes); }};
  ls::BatchLoader<float> data{{ls::AnyDataset(RowDataset(TinyData(40), 5)), {}}};
  ls::detail::initialize<float>(compiled.state.variables, compiled.state.parameters().slices(), ls::RandomKey(1));
  data.begin({});
  for (std::int64_t step = 0; step < 8; ++step)
    ls::detail::train_step(compiled, own, replica, data, step, {}, false, trace);
  std::vector<float> values(compiled.state.parameters().values().begin(), compiled.state.parameters().values().end());
  for (const auto& slot : compiled.state.slots())
    values.insert(values.end(), slot.values().begin(), slot.values().end());
  return values;
}

/// The same on threads that share parameters, with more of them than are updated after backward.
template <class Optimizer>
std::vector<float> train_on_threads(int threads, const Optimizer& optimizer, ls::Trace* traces) {
  using Large = ls::Sequential<ls::Input<4>, ls::Dense<1024, ls::ReLU>, ls::Dense<1040, ls::ReLU>, ls::Dense<3>>;
  using Compiled = ls::detail::Compiled<Large, float, ls::SparseCategoricalCrossentropy, Optimizer>;
  Compiled compiled{{.from_logits = true}, optimizer, {}};
  ls::detail::initialize<float>(compiled.state.variables, compiled.state.parameters().slices(), ls::RandomKey(1));
  ls::InProcessGroup group(threads);
  ls::testing::rethrow_first(ls::testing::run_threads(threads, [&](int rank) {
    ls::CollectiveReplica<ls::InProcess> replica(group.member(rank), rank, threads);
    typename Compiled::Replica own([](std::size_t bytes) { return ls::Buffer(bytes); });
    ls::BatchLoader<float> data{{ls::AnyDataset(RowDataset(TinyData(40), 5 + static_cast<std::size_t>(rank))), {}}};
    data.begin({});
    for (std::int64_t step = 0; step < 5; ++step)
      ls::detail::train_step(compiled, own, replica, data, step, {}, false,
                             traces == nullptr ? nullptr : &traces[rank]);
  }));
  const auto values = compiled.state.parameters().values();
  return {values.begin(), values.end()};
}

template <class Optimizer>
void check_equal(const Optimizer& optimizer) {
  ls::Trace trace(20, 10'000);  // with one, the update comes after backward
  const std::vector<float> early = train(optimizer, nullptr);
  CHECK(early == train(optimizer, &trace));
  CHECK(early != train(Optimizer{.learning_rate = 2 * optimizer.learning_rate}, nullptr));
}

}  // namespace

TEST_CASE("early update: in ranges that are worth a call, and each parameter once") {
  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;
  std::vector<float> gradients(50'000);
  Ranges ranges;
  const Updates compiled{ranges};
  ls::Single collective;
  Updates::Status status;
  status[Updates::Status::samples] = 5;
  ls::detail::EarlyUpdate update(compiled, collective, gradients, status, 3, true);
  const ls::BackwardProgress done = update.begin();
  const std::vector<std::span<float>> slices{
      std::span(gradients).subspan(100, 40'000)};  // the bias lies before the kernel
  const std::span<const std::span<float>> layer(slices);
  done(layer, 50);
  done(layer, 9'005);  // not a multiple of what vectors hold
  done(layer, 9'100);
  done(layer);
  CHECK(ranges == Ranges{{0, 9'104}, {9'104, 40'096}});
  update.finish();
  CHECK(ranges.back() == std::pair<std::size_t, std::size_t>{40'096, 50'000});
}

TEST_CASE("early update: the bits are those of an update after backward") {
  check_equal(ls::SGD{.learning_rate = 0.05});
  check_equal(ls::SGD{.learning_rate = 0.05, .momentum = 0.9});
  check_equal(ls::Adam{.learning_rate = 0.01});
}

TEST_CASE("early update: threads that share parameters have the same bits") {
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    std::vector<ls::Trace> traces;
    for (int i = 0; i < threads; ++i) traces.emplace_back(20, 10'000);
    const ls::Adam optimizer{.learning_rate = 0.01};
    CHECK(train_on_threads(threads, optimizer, nullptr) == train_on_threads(threads, optimizer, traces.data()));
  }
}
