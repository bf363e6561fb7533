#include "lockstep/model/early_update.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/flatten.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/reshape.hpp"
#include "lockstep/losses/sparse_categorical_crossentropy.hpp"
#include "lockstep/model/compiled.hpp"
#include "lockstep/model/sequential.hpp"
#include "lockstep/model/steps.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/optimizers/sgd.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "model/model_testing.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

/// Notes what is updated: [begin, end) for each call.
struct Updates {
  using Scalar = float;
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
  ls::detail::EarlyUpdate update(compiled, gradients, 5, 3);
  const ls::BackwardProgress done = update.hook();
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
