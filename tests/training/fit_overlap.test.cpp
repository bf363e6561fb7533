// fit with reductions that overlap with backward.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers/batch_normalization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "support/model_testing.hpp"

using namespace lockstep;
using namespace lockstep_test;

namespace {

template <class Condition>
void wait_until(Condition condition) {
  for (int i = 0; i < 30'000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Ring<Tcp>, which notes whether reductions of gradients come from another thread than the one
/// that connected, and may hold them.
class WatchedRing {
 public:
  static inline std::atomic<int> from_elsewhere = 0;
  static inline std::array<std::atomic<int>, 4> under_way{};  // from elsewhere, by rank
  static inline std::atomic<bool> holds = false;              // until abort()

  static WatchedRing connect(const Rendezvous& rendezvous, const CommunicationOptions& options) {
    return WatchedRing(Ring<Tcp>::connect(rendezvous, options));
  }
  [[nodiscard]] int rank() const noexcept { return ring_.rank(); }
  [[nodiscard]] int size() const noexcept { return ring_.size(); }
  template <Reducible T>
  void all_reduce(std::span<T> values, ReduceOp op = ReduceOp::sum) {
    ring_.all_reduce(values, op);
  }
  template <Reducible T>
  void all_reduce(std::span<double> status, std::span<T> values) {
    if (std::this_thread::get_id() == home_) return ring_.all_reduce(status, values);
    ++from_elsewhere;
    struct UnderWay {
      std::atomic<int>& count;
      explicit UnderWay(std::atomic<int>& counter) : count(counter) { ++count; }
      ~UnderWay() { --count; }
    } const mark(under_way.at(static_cast<std::size_t>(rank())));
    wait_until([] { return !holds; });
    ring_.all_reduce(status, values);
  }
  void broadcast(std::span<std::byte> bytes, int root) { ring_.broadcast(bytes, root); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    ring_.all_gather(mine, all);
  }
  void barrier() { ring_.barrier(); }
  void abort(std::string_view reason, ExitCode code) noexcept {
    holds = false;
    ring_.abort(reason, code);
  }
  void abort(std::string_view reason) noexcept { abort(reason, ExitCode::failure); }
  void close() { ring_.close(); }

 private:
  explicit WatchedRing(Ring<Tcp> ring) : ring_(std::move(ring)) {}
  Ring<Tcp> ring_;
  std::thread::id home_ = std::this_thread::get_id();
};

/// The worker that this thread is, in train().
thread_local int worker = -1;

/// A user's own layer; its backward fails in the middle of this worker's first reduction.
struct Interlude : lockstep_test::UserReLU {
  static inline std::atomic<bool> breaks = false;
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    if (breaks.exchange(false)) {
      wait_until([] { return WatchedRing::under_way.at(static_cast<std::size_t>(worker)) > 0; });
      throw std::runtime_error("enough");
    }
    UserReLU::backward<In, T>(pass);
  }
};

/// A user's own layer that has another do the work, and then changes the gradients.
template <std::size_t Units>
struct Halved : Dense<Units> {
  template <class In, class T>
  static void backward(const BackwardPass<T>& pass) {
    Dense<Units>::template backward<In, T>(pass);
    for (const auto gradients : pass.gradients)
      for (T& gradient : gradients) gradient *= T(0.5);
  }
};

// 2.7 MiB of gradients each. The synchronised layer communicates in the middle of backward.
using Net = Sequential<Input<300>, Dense<512>,
                       BatchNormalization<Linear, BatchNormalizationOptions{.synchronized = true}>,
                       Halved<512>, Sequential<Dense<512, ReLU>>, Dense<10>>;
using NetWithInterlude =
    Sequential<Input<300>, Dense<512>, Interlude, Dense<512, ReLU>, Dense<512, ReLU>, Dense<10>>;

AnyDataset data(std::int64_t samples = 48, std::int64_t batch = 16) {
  std::vector<float> x(static_cast<std::size_t>(samples) * 300);
  RandomStream random(RandomKey(3));
  for (float& value : x) value = static_cast<float>(random.normal());
  std::vector<std::uint8_t> y(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::uint8_t>(i % 10);
  return AnyDataset(from_tensor_slices(lockstep::Tensor<float>(
                                           std::move(x), {static_cast<std::size_t>(samples), 300}),
                                       lockstep::Tensor<std::uint8_t>(std::move(y)))
                        .batch(batch));
}

/// Trains on workers that are threads here, and returns the checksum of all their parameters.
template <CollectivePolicy Policy, class Model = Net>
std::uint32_t train(int workers, const MultiWorkerMirroredOptions& options, int epochs = 2,
                    const AnyDataset& source = data()) {
  std::vector<std::uint32_t> sums(static_cast<std::size_t>(workers));
  const auto addresses = free_addresses(workers);
  rethrow_first(run_threads(workers, [&](int rank) {
    worker = rank;
    Cluster own;
    own.spec.worker = addresses;
    own.task.index = rank;
    MultiWorkerMirroredStrategy<Policy> strategy(own, options);
    auto model = compile<Model>(strategy, CompileOptions{.seed = 1},
                                SparseCategoricalCrossentropy{.from_logits = true},
                                Adam{.learning_rate = 0.01});
    try {
      model.fit(source, {.epochs = epochs, .verbose = 0});
    } catch (...) {
      CHECK(WatchedRing::under_way.at(static_cast<std::size_t>(rank)) ==
            0);  // nothing uses the gradients any more
      throw;
    }
    sums[static_cast<std::size_t>(rank)] = model.parameters_crc32c();
  }));
  for (const std::uint32_t sum : sums) CHECK(sum == sums[0]);
  return sums[0];
}

MultiWorkerMirroredOptions with(Overlap overlap, int replicas = 1, Wire wire = Wire::native) {
  MultiWorkerMirroredOptions options{.replicas = replicas,
                                     .communication_options = patient_options()};
  options.communication_options.overlap = overlap;
  options.communication_options.wire = wire;
  return options;
}

}  // namespace

TEST_CASE("fit: overlap changes no bit, on any wire, with one or more replicas in a worker") {
  struct Case {
    int workers, replicas;
    Wire wire;
  };
  for (const Case& c :
       {Case{2, 1, Wire::native}, Case{2, 2, Wire::native}, Case{3, 1, Wire::bfloat16}}) {
    CAPTURE(c.workers);
    CAPTURE(c.replicas);
    WatchedRing::from_elsewhere = 0;
    const std::uint32_t without =
        train<WatchedRing>(c.workers, with(Overlap::off, c.replicas, c.wire));
    CHECK(WatchedRing::from_elsewhere == 0);
    const std::uint32_t overlapped =
        train<WatchedRing>(c.workers, with(Overlap::on, c.replicas, c.wire));
    CHECK(WatchedRing::from_elsewhere > 0);
    CHECK(overlapped == without);
  }
  CHECK(train<SharedMemory>(2, with(Overlap::on)) == train<SharedMemory>(2, with(Overlap::off)));
}

TEST_CASE("fit: overlap with parts of a batch that are not of one size") {
  // Of 289 samples, one worker has 145 and the other one 144, which are padded to 160 and 144:
  // Dense takes them differently.
  using Wide = Sequential<Input<300>, Dense<2048, ReLU>, Dense<10>>;
  const AnyDataset uneven = data(289, 289);
  WatchedRing::from_elsewhere = 0;
  const std::uint32_t overlapped = train<WatchedRing, Wide>(2, with(Overlap::on), 2, uneven);
  CHECK(WatchedRing::from_elsewhere > 0);
  CHECK(overlapped == train<WatchedRing, Wide>(2, with(Overlap::off), 2, uneven));
}

TEST_CASE("fit: a worker that throws in backward, while a reduction is under way, ends all") {
  WatchedRing::holds = true;
  Interlude::breaks = true;
  CHECK_THROWS_WITH((train<WatchedRing, NetWithInterlude>(2, with(Overlap::on))),
                    doctest::Contains("enough"));
  CHECK_FALSE(Interlude::breaks);
  CHECK_FALSE(WatchedRing::holds);
}

TEST_CASE("workers with different ideas of overlap are refused") {
  const auto addresses = free_addresses(2);
  const auto thrown = run_threads(2, [&](int rank) {
    Cluster own;
    own.spec.worker = addresses;
    own.task.index = rank;
    MultiWorkerMirroredStrategy<Ring<Tcp>>(own, with(rank == 0 ? Overlap::on : Overlap::off));
  });
  for (const auto& exception : thrown)
    CHECK(message_of(exception).find("CommunicationOptions::overlap") != std::string::npos);
}
