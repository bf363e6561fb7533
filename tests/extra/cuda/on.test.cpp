// Models on a device, whose kernels run on emulated threads.
#include "lockstep/extra/cuda/on.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cstddef>
#include <vector>

#include "extra/cuda/trains_alike.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/model/own_loop.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "support/emulated_cuda.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("a model on a device trains as on the processor, in any order of threads") {
  ThreadOrder order = ThreadOrder::backward;
  SUBCASE("backward") { order = ThreadOrder::backward; }
  SUBCASE("odd first") { order = ThreadOrder::odd_first; }
  EmulatedCuda& device = EmulatedCuda::instance();
  device.set_order(ThreadOrder::forward);
  on_device::check_all_train_alike<EmulatedCuda>([&] { device.set_order(order); });
}

TEST_CASE("two workers, each on a device, train as two on the processor") {
  const ls::SGD sgd{.learning_rate = 0.1};
  const auto train = [&]<class Net>() {
    return on_tcp_workers<on_device::Result>(
        2, 1, "", [&](TcpStrategy& strategy) { return on_device::train_with<Net>(strategy, sgd); });
  };
  const auto expected = train.operator()<on_device::Cnn>();
  const auto got = train.operator()<ls::On<EmulatedCuda, on_device::Cnn>>();
  for (std::size_t worker = 0; worker < 2; ++worker)
    on_device::check_alike(got[worker], expected[worker]);
  CHECK(got[0].weights == got[1].weights);
}

TEST_CASE("files of a model on a device are those of its network") {
  const TemporaryFolder folder;
  const on_device::Data<24> data(23);
  const auto batches = ls::from_tensor_slices(data.x, data.y).batch(10);
  const auto compiled = [&]<class Net>() {
    static ls::OneDeviceStrategy strategy;
    return ls::compile<Net>(strategy, {.seed = 5},
                            ls::SparseCategoricalCrossentropy{.from_logits = true},
                            ls::Adam{.learning_rate = 0.01});
  };
  auto there = compiled.operator()<ls::On<EmulatedCuda, on_device::Mlp>>();
  auto here = compiled.operator()<on_device::Mlp>();
  there.fit(batches, {.epochs = 2, .verbose = 0});
  there.save(folder.path() + "/model");
  here.load(folder.path() + "/model");  // with the optimizer's state: training goes on alike
  there.fit(batches, {.epochs = 1, .verbose = 0});
  here.fit(batches, {.epochs = 1, .verbose = 0});
  const auto got = there.predict(batches), expected = here.predict(batches);
  for (Eigen::Index i = 0; i < expected.size(); ++i)
    CHECK(got.data()[i] == doctest::Approx(expected.data()[i]).epsilon(1e-4));
}

TEST_CASE("a loop of the program's own trains a model on a device as fit does") {
  const on_device::Data<24> data(23);
  const auto batches = ls::from_tensor_slices(data.x, data.y).batch(10);
  ls::OneDeviceStrategy strategy;
  const auto weights_of = [&](const auto& train) {
    auto model = ls::compile<ls::On<EmulatedCuda, on_device::Mlp>>(
        strategy, {.seed = 5}, ls::SparseCategoricalCrossentropy{.from_logits = true},
        ls::SGD{.learning_rate = 0.1});
    train(model);
    std::vector<float> all;
    for (const auto& weight : model.get_weights())
      all.insert(all.end(), weight.values.begin(), weight.values.end());
    return all;
  };
  const auto by_fit = weights_of([&](auto& model) { model.fit(batches, {.verbose = 0}); });
  const auto by_loop = weights_of([&](auto& model) {
    auto shares = strategy.distribute(batches);
    strategy.run([&](auto& replica) {
      auto& here = model.on(replica);
      for (const auto& batch : shares.on(replica, {.seed = model.seed(), .number = 0})) {
        const auto gradients = here.gradients(batch);
        CHECK(gradients.rows > 0);
        here.apply(gradients);
      }
    });
  });
  CHECK(by_loop == by_fit);
}

TEST_CASE("large batches, and workers without samples") {
  using Small =
      ls::Sequential<ls::Input<24>, ls::Dense<4, ls::Tanh>, ls::BatchNormalization<>, ls::Dense<3>>;
  SUBCASE("2048 samples") {
    const on_device::Data<24> data(2048);
    const auto loss = [&]<class Net>() {
      ls::OneDeviceStrategy strategy;
      auto model = ls::compile<Net>(strategy, {.seed = 5},
                                    ls::SparseCategoricalCrossentropy{.from_logits = true},
                                    ls::SGD{.learning_rate = 0.1});
      const auto batch = ls::from_tensor_slices(data.x, data.y).batch(2048);
      return model.fit(batch, {.epochs = 2, .verbose = 0})["loss"].back();
    };
    CHECK(loss.operator()<ls::On<EmulatedCuda, Small>>() ==
          doctest::Approx(loss.operator()<Small>()).epsilon(1e-5));
  }
  SUBCASE("one sample for two workers") {
    const on_device::Data<24> data(21);
    const auto train = [&]<class Net>() {
      return on_tcp_workers<double>(2, 1, "", [&](TcpStrategy& strategy) {
        auto model = ls::compile<Net>(strategy, {.seed = 5},
                                      ls::SparseCategoricalCrossentropy{.from_logits = true},
                                      ls::SGD{.learning_rate = 0.1});
        const auto batches = ls::from_tensor_slices(data.x, data.y).batch(10);
        return model.fit(batches, {.epochs = 2, .verbose = 0})["loss"].back();
      });
    };
    const auto expected = train.operator()<Small>();
    const auto got = train.operator()<ls::On<EmulatedCuda, Small>>();
    CHECK(got[0] == doctest::Approx(expected[0]).epsilon(1e-5));
    CHECK(got[1] == got[0]);
  }
}

TEST_CASE("rounds of steps apart, on a device") {
  const auto train = [&]<class Net>() {
    return on_tcp_workers<std::vector<float>>(2, 1, "", [&](TcpStrategy& strategy) {
      const on_device::Data<24> data(40);
      auto model = ls::compile<Net>(strategy, {.seed = 5, .synchronization = ls::LocalSGD{2}},
                                    ls::SparseCategoricalCrossentropy{.from_logits = true},
                                    ls::SGD{.learning_rate = 0.1});
      model.fit(ls::from_tensor_slices(data.x, data.y).batch(10), {.epochs = 2, .verbose = 0});
      std::vector<float> all;
      for (const auto& weight : model.get_weights())
        all.insert(all.end(), weight.values.begin(), weight.values.end());
      return all;
    });
  };
  const auto expected = train.operator()<on_device::Mlp>();
  const auto got = train.operator()<ls::On<EmulatedCuda, on_device::Mlp>>();
  on_device::check_close(got[0], expected[0], 2e-5f);
  CHECK(got[1] == got[0]);
}

TEST_CASE("replicas of one process do not share a device") {
  ls::MirroredStrategy strategy({.replicas = 2});
  const auto compile = [&] {
    (void)ls::compile<ls::On<EmulatedCuda, on_device::Mlp>>(
        strategy, ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::SGD{});
  };
  CHECK_THROWS_WITH_AS(compile(),
                       doctest::Contains("2 replicas in this process, which would share it"),
                       ls::ConfigurationError);
}
