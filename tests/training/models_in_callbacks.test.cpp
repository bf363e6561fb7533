// Models that callbacks use, under every strategy.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/activations.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/dropout.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/metrics/accuracies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/mirrored.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

using TcpStrategy = ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>>;
using Net = ls::Sequential<ls::Input<4>, ls::Dense<8, ls::ReLU>, ls::BatchNormalization<>,
                           ls::Dropout<0.25>, ls::Dense<3>>;

/// Calls a function in every hook in which a model may be used.
struct EveryHook {
  std::function<void(std::string_view)> at = [](std::string_view) {};
  void on_train_begin(ls::Training&) const { at("train_begin"); }
  void on_epoch_begin(ls::Training&, int) const { at("epoch_begin"); }
  void on_train_batch_begin(ls::Training&, std::int64_t) const { at("batch_begin"); }
  void on_train_batch_end(ls::Training&, std::int64_t, ls::Logs&) const { at("batch_end"); }
  void on_train_batch_complete(ls::Training&, std::int64_t) const { at("batch_complete"); }
  void on_test_begin(ls::Training&) const { at("test_begin"); }
  void on_test_end(ls::Training&, ls::Logs&) const { at("test_end"); }
  void on_epoch_end(ls::Training&, int, ls::Logs&) const { at("epoch_end"); }
  void on_epoch_complete(ls::Training&, int) const { at("epoch_complete"); }
  void on_train_end(ls::Training&, ls::Logs&) const { at("train_end"); }
};

/// What a program with one model does, compiled once for each strategy.
template <class S>
struct Program {
  S& strategy;

  auto compiled(std::uint64_t seed) const {
    return ls::compile<Net>(strategy, {.seed = seed},
                            ls::SparseCategoricalCrossentropy{.from_logits = true}, ls::Adam{},
                            ls::Accuracy{});
  }
  static auto data(int samples) {
    const TinyData rows(samples);
    return ls::AnyDataset(
        ls::from_tensor_slices(rows.x, rows.y).shuffle(samples).batch(5).prefetch(2));
  }

  /// Trains, and in every hook calls use(model, hook); a null one does nothing.
  template <class Use>
  std::uint32_t trained(std::uint64_t seed, const Use& use) const {
    auto model = compiled(seed);
    EveryHook hooks;
    hooks.at = [&](std::string_view hook) { use(model, hook); };
    model.fit(data(24), {.epochs = 2, .verbose = 0, .validation_data = data(11)}, hooks);
    return model.parameters_crc32c();
  }

  std::uint32_t undisturbed(std::uint64_t seed) const {
    return trained(seed, [](auto&, std::string_view) {});
  }

  /// The same with the model in use in every hook, and once more with another model.
  std::uint32_t in_use(const std::string& folder) const {
    const TinyData rows(7);
    const std::string weights = folder + "/weights", whole = folder + "/model";
    const std::uint32_t other_alone = undisturbed(9);
    return trained(5, [&](auto& model, std::string_view hook) {
      CHECK(model.predict(rows.x).rows() == 7);
      CHECK(model.evaluate(data(11), {.verbose = 0}).contains("accuracy"));
      model.set_weights(model.get_weights());
      if (hook != "epoch_end") return;
      model.save(whole);
      model.save_weights(weights);
      model.load_weights(weights);
      const std::uint32_t other = trained(9, [&](auto& inner, std::string_view inner_hook) {
        if (inner_hook == "epoch_end")
          CHECK(inner.predict(rows.x).rows() == model.predict(rows.x).rows());
      });
      CHECK(other == other_alone);
    });
  }
};

ls::Cluster cluster_of(const std::vector<std::string>& addresses, int rank) {
  ls::Cluster cluster;
  cluster.spec.worker = addresses;
  cluster.task.index = rank;
  return cluster;
}

/// Runs f(strategy) as each of two workers that meet over TCP, and returns what each has thrown.
std::vector<std::exception_ptr> two_workers(int replicas,
                                            const std::function<void(TcpStrategy&)>& f) {
  const auto addresses = free_addresses(2);
  return run_threads(2, [&](int rank) {
    TcpStrategy strategy(cluster_of(addresses, rank),
                         {.replicas = replicas, .communication_options = patient_options()});
    f(strategy);
  });
}

}  // namespace

TEST_CASE("models in callbacks: alone and on threads, training goes on to the same bits") {
  const TemporaryFolder folder;
  ls::OneDeviceStrategy one;
  const Program<ls::OneDeviceStrategy> alone{one};
  CHECK(alone.in_use(folder.path()) == alone.undisturbed(5));
  for (const int replicas : {1, 2, 3}) {
    CAPTURE(replicas);
    ls::MirroredStrategy strategy({.replicas = replicas});
    const Program<ls::MirroredStrategy> program{strategy};
    CHECK(program.in_use(folder.path()) == program.undisturbed(5));
  }
}

TEST_CASE(
    "models in callbacks: on workers over TCP, with one thread and with two, to the same bits") {
  for (const int replicas : {1, 2}) {
    CAPTURE(replicas);
    const TemporaryFolder folder;
    rethrow_first(two_workers(replicas, [&](TcpStrategy& strategy) {
      const Program<TcpStrategy> program{strategy};
      CHECK(program.in_use(folder.path()) == program.undisturbed(5));
    }));
  }
}

TEST_CASE(
    "models in callbacks: a call that only one worker makes is an error on both, and no hang") {
  for (const int replicas : {1, 2}) {
    CAPTURE(replicas);
    const auto thrown = two_workers(replicas, [](TcpStrategy& strategy) {
      const Program<TcpStrategy> program{strategy};
      program.trained(5, [&](auto& model, std::string_view hook) {
        if (hook == "epoch_end" && strategy.is_chief()) (void)model.predict(TinyData(7).x);
      });
    });
    for (const std::exception_ptr& exception : thrown) CHECK(exception != nullptr);
  }
}

TEST_CASE(
    "models in callbacks: fit of the same model, and what replaces its state, are refused at "
    "once") {
  for (const int replicas : {1, 2}) {
    const TemporaryFolder folder;
    ls::MirroredStrategy strategy({.replicas = replicas});
    const Program<ls::MirroredStrategy> program{strategy};
    int refused = 0;
    const auto tries_twice = [&](auto& model, std::string_view hook) {
      if (hook != "epoch_end") return;
      const auto fits = [&] { model.fit(program.data(10), {.verbose = 0}); };
      refused += contains(message_of<ls::Error>(fits), "fit: this model is in fit already");
      model.save(folder.path("model"));
      const auto loads = [&] { model.load(folder.path("model")); };
      refused += contains(message_of<ls::ConfigurationError>(loads), "use load_weights");
    };
    CHECK(program.trained(5, tries_twice) == program.undisturbed(5));
    CHECK(refused == 4);
  }
}

TEST_CASE("models in callbacks: a fit in a callback is not counted among the fits of its model") {
  struct Numbers {
    std::vector<std::int64_t> of_fits{};
    void on_train_begin(ls::Training& training) { of_fits.push_back(training.state().fit); }
  };
  ls::OneDeviceStrategy strategy;
  const Program<ls::OneDeviceStrategy> program{strategy};
  auto outer = program.compiled(1), inner = program.compiled(2);
  Numbers numbers;
  EveryHook hooks;
  hooks.at = [&](std::string_view hook) {
    if (hook == "epoch_end") inner.fit(program.data(10), {.verbose = 0}, numbers);
  };
  outer.fit(program.data(10), {.epochs = 2, .verbose = 0}, hooks);
  for (int i = 0; i < 2; ++i) inner.fit(program.data(10), {.verbose = 0}, numbers);
  CHECK(numbers.of_fits == std::vector<std::int64_t>{0, 0, 1, 2});
}

TEST_CASE("models in callbacks: an exception of an inner call ends fit, or can be caught") {
  RowDataset damaged(TinyData(12), 4);
  damaged.bad_sample = 6;  // of the second replica, where there are two
  for (const int replicas : {1, 2, 3}) {
    CAPTURE(replicas);
    TinyTrainer caught({.replicas = replicas}), undisturbed({.replicas = replicas}),
        ended({.replicas = replicas});
    const RowDataset data(TinyData(20), 5);
    Recorder recorder;
    recorder.at_epoch_end = [&](ls::Training&, int, ls::Logs&) {
      CHECK_THROWS_AS(caught.evaluate(damaged), ls::DataError);
      CHECK(caught.predict(data).rows() == 20);
    };
    caught.fit(data, {.epochs = 2}, &recorder);
    undisturbed.fit(data, {.epochs = 2});
    CHECK(caught.parameters_crc32c() == undisturbed.parameters_crc32c());

    recorder.at_epoch_end = [&](ls::Training&, int, ls::Logs&) { ended.evaluate(damaged); };
    CHECK(message_of<ls::DataError>([&] { ended.fit(data, {.epochs = 2}, &recorder); }) ==
          "fit, epoch 1, on_epoch_end of Recorder: sample 6 is damaged");
    ended.fit(data);
  }
}

TEST_CASE(
    "models in callbacks: where the replicas are at work, a call throws at once and says where it "
    "can be made") {
  for (const int replicas : {1, 2}) {
    CAPTURE(replicas);
    TinyTrainer trainer({.replicas = replicas});
    const RowDataset data(TinyData(20), 5);
    Recorder recorder;
    int refused = 0;
    const auto predict = [&] {
      const std::string message = message_of<ls::Error>([&] { trainer.predict(data); });
      refused += contains(message, "at work") && contains(message, "on_epoch_end");
    };
    recorder.at_epoch_end = [&](ls::Training&, int, ls::Logs&) { std::thread(predict).join(); };
    recorder.at_test_batch_end = [&](ls::Training&, std::int64_t) { predict(); };
    trainer.fit(data, {.validation_data = data}, &recorder);
    CHECK(refused == 1 + 4);
  }
}

TEST_CASE(
    "models in callbacks: a function of the dataset cannot use the model that the data are for") {
  const TinyData rows(12);
  const auto check = [&](auto&& strategy) {
    auto model = ls::compile<Net>(strategy, {.seed = 1},
                                  ls::SparseCategoricalCrossentropy{.from_logits = true},
                                  ls::Adam{}, ls::Accuracy{});
    for (const bool ahead : {false, true}) {
      const auto data =
          ls::from_tensor_slices(rows.x, rows.y).map([&](auto&) { (void)model.predict(rows.x); });
      const auto fit = [&] {
        if (ahead)
          model.fit(data.batch(4).prefetch(2), {.verbose = 0});
        else
          model.fit(data.batch(4), {.verbose = 0});
      };
      CHECK(contains(message_of<ls::Error>(fit), "a function of the dataset"));
    }
    CHECK(model.predict(rows.x).rows() == 12);
  };
  check(ls::OneDeviceStrategy());
  for (const int replicas : {1, 2}) check(ls::MirroredStrategy({.replicas = replicas}));
}

TEST_CASE(
    "models in callbacks: an exception carries the callback, the hook, the epoch and the step, and "
    "its exit code") {
  TinyTrainer trainer({.replicas = 2});
  const RowDataset data(TinyData(20), 5);
  const auto thrown = [&](auto exception) {
    Recorder recorder;
    recorder.at_batch_end = [&](ls::Training&, std::int64_t batch, ls::Logs&) {
      if (batch == 2) throw exception;
    };
    return message_of<decltype(exception)>(
        [&] { trainer.fit(data, {.epochs = 2, .initial_epoch = 1}, &recorder); });
  };
  const std::string place = "fit, epoch 2, step 3, on_train_batch_end of Recorder: ";
  CHECK(thrown(ls::ConfigurationError("no")) == place + "no");
  CHECK(thrown(ls::DataError("no")) == place + "no");
  CHECK(thrown(ls::Error("no")) == place + "no");
  CHECK(thrown(ls::Preempted("no", ls::ExitCode::terminated)) == "no");
  CHECK(thrown(ls::CollectiveError({.reason = "no"})).starts_with("collective operation in step"));

  Recorder recorder;
  recorder.at_epoch_begin = [](ls::Training&, int) { throw std::runtime_error("disk full"); };
  try {
    trainer.fit(data, {}, &recorder);
    FAIL("returned");
  } catch (const ls::Error& error) {
    CHECK(std::string(error.what()) == "fit, epoch 1, on_epoch_begin of Recorder: disk full");
    CHECK(error.exit_code() == ls::ExitCode::failure);
    CHECK_THROWS_AS(std::rethrow_if_nested(error), std::runtime_error);
  }
  recorder.at_epoch_begin = {};
  recorder.at_test_begin = [](ls::Training&) { throw std::runtime_error("disk full"); };
  CHECK(message_of<ls::Error>([&] { trainer.fit(data, {.validation_data = data}, &recorder); }) ==
        "fit, validation, epoch 1, on_test_begin of Recorder: disk full");
  CHECK(message_of<ls::Error>([&] { trainer.evaluate(data, {}, &recorder); }) ==
        "evaluate, on_test_begin of Recorder: disk full");
}
