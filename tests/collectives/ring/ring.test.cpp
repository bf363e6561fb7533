#include "lockstep/collectives/ring/ring.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/core/half.hpp"

using namespace lockstep;
using namespace lockstep_test;

namespace {

/// A transport outside the library: queues in memory, which count what goes over them.
struct Network {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<std::byte>> queues;
  std::map<std::pair<int, int>, std::size_t> bytes;
};

class QueueTransport {
 public:
  QueueTransport(Network& network, int rank, int size)
      : network_(&network), rank_(rank), size_(size) {}
  int rank() const { return rank_; }
  int size() const { return size_; }
  // A flow whose outgoing bytes depend on incoming ones moves bit by bit.
  void transfer(int to, int from, Flow& flow) {
    std::uint64_t to_send = flow.bytes_to_send();
    std::uint64_t to_receive = flow.bytes_to_receive();
    std::unique_lock lock(network_->mutex);
    auto& in = network_->queues[{from, rank_}];
    while (to_send > 0 || to_receive > 0) {
      const auto out = flow.outgoing();
      if (!out.empty()) {
        network_->queues[{rank_, to}].insert(network_->queues[{rank_, to}].end(), out.begin(),
                                             out.end());
        network_->bytes[{rank_, to}] += out.size();
        network_->changed.notify_all();
        to_send -= out.size();
        flow.sent(out.size());
        continue;
      }
      if (!network_->changed.wait_for(lock, std::chrono::seconds(30), [&] { return !in.empty(); }))
        throw Error("nothing comes");
      // In portions that fit nothing.
      const std::size_t n = std::min({in.size(), flow.incoming().size(), std::size_t{9973}});
      std::copy_n(in.begin(), n, flow.incoming().begin());
      in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(n));
      to_receive -= n;
      flow.received(n);
    }
  }
  void abort(std::string_view) noexcept {}

 private:
  Network* network_;
  int rank_;
  int size_;
};
static_assert(Transport<QueueTransport>);
static_assert(Collective<Ring<QueueTransport>>);
static_assert(!CollectivePolicy<Ring<QueueTransport>>);  // nothing connects it
static_assert(CollectivePolicy<Ring<Tcp>>);

}  // namespace

TEST_SUITE("ring") {
  TEST_CASE("over any transport; data goes to the next rank only, 2 (n - 1) / n of it") {
    for (int size = 2; size <= 5; ++size) {
      Network network;
      const std::size_t count = static_cast<std::size_t>(size) * 2 * block_elements;
      rethrow_first(run_threads(size, [&](int rank) {
        Ring<QueueTransport> ring{QueueTransport(network, rank, size)};
        std::vector<float> values(count, static_cast<float>(rank));
        ring.all_reduce(std::span(values));
        if (values != std::vector<float>(count, static_cast<float>(size * (size - 1) / 2)))
          throw Error("sum");
      }));
      const std::size_t expected = 2 * (static_cast<std::size_t>(size) - 1) * count *
                                   sizeof(float) / static_cast<std::size_t>(size);
      for (const auto& [pair, bytes] : network.bytes) {
        CHECK(pair.second == (pair.first + 1) % size);
        CHECK(bytes == expected);
      }
      for (const auto& [pair, queue] : network.queues) CHECK(queue.empty());
    }
  }

  template <class Format>
  void rounds_like(Wire wire, int size, std::size_t count) {
    Network network;
    std::vector<std::vector<float>> inputs, results(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) inputs.push_back(random_numbers<float>(rank, count));
    std::vector<double> statuses(static_cast<std::size_t>(size));
    rethrow_first(run_threads(size, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      Ring<QueueTransport> ring(
          QueueTransport(network, rank, size),
          {.implementation = CommunicationImplementation::ring, .wire = wire});
      results[r] = inputs[r];
      double status = 1.0 / (rank + 3);  // no half could hold it
      ring.all_reduce(std::span(&status, 1), std::span(results[r]));
      statuses[r] = status;
    }));
    const auto round = [](float value) { return Format::decode(Format::encode(value)); };
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t first = i / block_elements % static_cast<std::size_t>(size);
      float sum = inputs[first][i];
      for (std::size_t k = 1; k < inputs.size(); ++k)
        sum = round(sum) + inputs[(first + k) % inputs.size()][i];
      expected[i] = round(sum);
    }
    double status = 1.0 / 3;
    for (int rank = 1; rank < size; ++rank) status += 1.0 / (rank + 3);
    for (int rank = 0; rank < size; ++rank) {
      CHECK(results[static_cast<std::size_t>(rank)] == expected);
      CHECK(statuses[static_cast<std::size_t>(rank)] == status);
    }
    // Half the bytes, but for the status.
    std::size_t bytes = 0;
    for (const auto& [pair, moved] : network.bytes) bytes += moved;
    CHECK(bytes == 2 * static_cast<std::size_t>(size - 1) * (count * 2 + sizeof(double)));
  }

  TEST_CASE(
      "a half-precision wire rounds what travels, not the status, and all ranks hold the same "
      "bits") {
    for (int size = 2; size <= 4; ++size) {
      rounds_like<detail::Bfloat16>(Wire::bfloat16, size, 3 * block_elements + 77);
      rounds_like<detail::Float16>(Wire::float16, size, 3 * block_elements + 77);
    }
  }

  TEST_CASE("with error feedback, what a rank rounds off goes into its next sum") {
    constexpr int size = 3;
    constexpr std::size_t count = 2 * block_elements + 77;
    const CommunicationOptions options{.implementation = CommunicationImplementation::ring,
                                       .wire = Wire::bfloat16,
                                       .error_feedback = true};
    Network network;
    std::array<std::vector<float>, size> inputs, results, residuals, expected_residuals;
    for (std::size_t r = 0; r < size; ++r) {
      inputs.at(r) = random_numbers<float>(static_cast<int>(r), count);
      results.at(r).resize(count);
      residuals.at(r).resize(count);
      expected_residuals.at(r).resize(count);
    }
    std::vector<float> expected(count), all_sums(count), all_expected(count);
    const auto round = [](float value) {
      return detail::Bfloat16::decode(detail::Bfloat16::encode(value));
    };
    for (int step = 0; step < 3; ++step)
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t first = i / block_elements % size;
        float sum = 0;
        for (std::size_t k = 0; k < size; ++k) {
          const std::size_t rank = (first + k) % size;
          float& residual = expected_residuals.at(rank)[i];
          const float own = inputs.at(rank)[i] + residual;
          const float whole = k == 0 ? own : sum + own;
          sum = round(whole);
          residual = whole - sum;
        }
        expected[i] = sum;
        all_expected[i] += sum;
      }
    rethrow_first(run_threads(size, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      Ring<QueueTransport> ring(QueueTransport(network, rank, size), options);
      std::vector<float>& values = results.at(r);
      ring.keep_residuals(values, residuals.at(r));
      for (int step = 0; step < 3; ++step) {
        values = inputs.at(r);
        double status = 1;
        ring.all_reduce(std::span(&status, 1), std::span(values));
        if (rank == 0)
          for (std::size_t i = 0; i < count; ++i) all_sums[i] += values[i];
      }
      ring.keep_residuals(values, {});  // from now on without
      std::vector<float> once = inputs.at(r);
      ring.all_reduce(std::span<double>(), std::span(once));
    }));
    CHECK(all_sums == all_expected);
    for (std::size_t r = 0; r < size; ++r) {
      CHECK(results.at(r) == expected);
      CHECK(residuals.at(r) == expected_residuals.at(r));
    }
  }

  /// Two ranks whose gradients nearly cancel out: what is left of them is below bfloat16's
  /// precision. Returns how far gradient descent comes to its goal, 1.
  float descend(bool error_feedback, Wire wire) {
    Network network;
    float reached = 0;
    rethrow_first(run_threads(2, [&](int rank) {
      Ring<QueueTransport> ring(QueueTransport(network, rank, 2),
                                {.implementation = CommunicationImplementation::ring,
                                 .wire = wire,
                                 .error_feedback = error_feedback});
      std::vector<float> gradient(1), residual(1);
      if (error_feedback) ring.keep_residuals(gradient, residual);
      float w = 0;
      for (int step = 0; step < 400; ++step) {
        gradient[0] = rank == 0 ? 1000 + (w - 1) : -1000;
        ring.all_reduce(std::span<double>(), std::span(gradient));
        w -= 0.02F * gradient[0];
      }
      if (rank == 0) reached = w;
    }));
    return reached;
  }

  TEST_CASE("error feedback converges where a wire that rounds does not") {
    CHECK(descend(false, Wire::native) == doctest::Approx(1).epsilon(0.01));
    CHECK(descend(false, Wire::bfloat16) == 0);
    CHECK(descend(true, Wire::bfloat16) == doctest::Approx(1).epsilon(0.1));
    CHECK(descend(true, Wire::float16) == doctest::Approx(1).epsilon(0.1));
  }

  TEST_CASE("packs of any size give the same sums") {
    for (const std::int64_t bytes : {1, 64, 1000, 1 << 20}) {
      Network network;
      const std::size_t count = 2 * block_elements + 999;
      std::vector<std::vector<float>> inputs{random_numbers<float>(0, count),
                                             random_numbers<float>(1, count)};
      const auto expected = contract_sum(inputs);
      rethrow_first(run_threads(2, [&](int rank) {
        Ring<QueueTransport> ring(QueueTransport(network, rank, 2), {.bytes_per_pack = bytes});
        auto& values = inputs[static_cast<std::size_t>(rank)];
        ring.all_reduce(std::span(values));
        if (values != expected) throw Error("sum");
      }));
    }
  }

  TEST_CASE("ranks with different options are refused by name") {
    const auto thrown = run_places(2, [&](const Rendezvous& place) {
      CommunicationOptions options = patient_options();
      if (place.rank == 1) options.wire = Wire::float16;
      (void)Ring<Tcp>::connect(place, options);
    });
    for (const auto& exception : thrown)
      CHECK(message_of(exception).find("has CommunicationOptions::wire ") != std::string::npos);
  }

  TEST_CASE("congestion control") {
    const auto connect = [](const std::string& name) {
      return run_places(2, [&](const Rendezvous& place) {
        CommunicationOptions options = patient_options();
        options.congestion_control = name;
        auto ring = Ring<Tcp>::connect(place, options);
        ring.barrier();
        ring.close();
      });
    };
    for (const auto& exception : connect("reno"))
      CHECK(message_of(exception).empty());  // every Linux has it
    for (const auto& exception : connect("pigeons"))
      CHECK(message_of(exception).find("does not offer 'pigeons'") != std::string::npos);
  }
}

namespace {

constexpr auto any = CommunicationImplementation::automatic;
using detail::Algorithm;
constexpr std::size_t kib = 1024;
static_assert(detail::choose_algorithm(any, 128 * kib, 4, 1) == Algorithm::gather);
static_assert(detail::choose_algorithm(any, 128 * kib + 1, 4, 1) == Algorithm::ring);
static_assert(detail::choose_algorithm(any, 8 * kib, 4, 2) == Algorithm::gather);
static_assert(detail::choose_algorithm(any, 8 * kib + 1, 4, 2) ==
              Algorithm::ring);  // the hosts' link
static_assert(detail::choose_algorithm(CommunicationImplementation::ring, 1, 4, 1) ==
              Algorithm::ring);
static_assert(detail::choose_algorithm(CommunicationImplementation::gather, 1 << 30, 4, 4) ==
              Algorithm::gather);
static_assert(!detail::rounds(any, 128 * kib, 4) && detail::rounds(any, 128 * kib + 1, 4));
static_assert(detail::rounds(CommunicationImplementation::ring, 1, 4));

/// What the first flow would do.
struct First {
  int to = -1;
  std::size_t room = 0;  ///< bytes that it would take at once
};

/// A transport on which nothing moves.
class Still {
 public:
  Still(int size, First& first) : size_(size), first_(&first) {}

  [[nodiscard]] int rank() const noexcept { return 1; }  // which combines first
  [[nodiscard]] int size() const noexcept { return size_; }
  void transfer(int to, int, Flow& flow) {
    if (first_->to < 0) *first_ = {.to = to, .room = flow.incoming().size()};
  }
  void abort(std::string_view) noexcept {}

 private:
  int size_;
  First* first_;
};

std::size_t pack(int ranks, std::size_t bytes, std::int64_t asked = 0) {
  First first;
  CommunicationOptions options;
  options.implementation = CommunicationImplementation::ring;
  options.bytes_per_pack = asked;
  Ring<Still> ring(Still(ranks, first), options);
  std::vector<float> values(bytes / sizeof(float));
  ring.all_reduce(std::span(values));
  return first.room;
}

/// Whether the ranks gather all arrays: then rank 1 sends to the one before it first.
bool gathers(int ranks, int together, std::size_t bytes, CommunicationOptions options = {}) {
  First first;
  Ring<Still> ring(Still(ranks, first), std::move(options), together);
  std::vector<float> values(bytes / sizeof(float));
  ring.all_reduce(std::span(values));
  CHECK((first.to == 0 || first.to == 2));
  return first.to == 0;
}

constexpr std::size_t KiB = 1024;

}  // namespace

TEST_SUITE("ring engine") {
  TEST_CASE("what is short is gathered: where several ranks share a link, what is very short") {
    CHECK(gathers(16, 1, 32 * KiB));
    CHECK_FALSE(gathers(16, 1, 33 * KiB));
    CHECK(gathers(16, 2, 8 * KiB));
    CHECK_FALSE(gathers(16, 2, 9 * KiB));
    CHECK(gathers(16, 8, 512));
    CHECK_FALSE(gathers(16, 8, 1 * KiB));
    CHECK_FALSE(gathers(128, 2, 5 * KiB));
    CHECK(gathers(16, 8, 1 * KiB, {.implementation = CommunicationImplementation::gather}));
    CHECK_FALSE(gathers(16, 1, 1 * KiB, {.implementation = CommunicationImplementation::ring}));
  }
  TEST_CASE("with many blocks for each rank, packs are whole blocks") {
    CHECK(pack(2, 4096 * KiB) == 256 * KiB);
    CHECK(pack(8, 4096 * KiB) == 256 * KiB);
  }
  TEST_CASE("with few blocks for the ranks, packs are smaller, so that all links are busy") {
    CHECK(pack(16, 4096 * KiB) == 128 * KiB);
    CHECK(pack(64, 4096 * KiB) == 32 * KiB);
    CHECK(pack(512, 4096 * KiB) == 32 * KiB);
    CHECK(pack(2, 256 * KiB) == 64 * KiB);
    CHECK(pack(8, 256 * KiB) == 32 * KiB);
  }
  TEST_CASE("an option says otherwise") {
    CHECK(pack(8, 256 * KiB, 128 * 1024) == 128 * KiB);
    CHECK(pack(8, 4096 * KiB, 1) == 64);
  }
}

using detail::GatheredMessages;

namespace {

using Bytes = std::vector<std::byte>;

Bytes message_of_rank(int rank, std::size_t bytes) {
  Bytes message(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    message[i] = static_cast<std::byte>(1 + 17 * static_cast<std::size_t>(rank) + i);
  return message;
}

/// The other ranks, as one of them sees them: in each round it is sent what the scheme says that
/// they hold by then.
class Others {
 public:
  Others(std::size_t bytes, int rank, int ranks) : bytes_(bytes), rank_(rank), ranks_(ranks) {}

  void operator()(int to, int from, Flow& flow) {
    rounds.emplace_back(to, from);
    CHECK(flow.bytes_to_send() == flow.bytes_to_receive());  // all ranks move as much in a round
    const std::size_t moved = flow.outgoing().size();
    CHECK(moved == flow.bytes_to_send());
    const Bytes mine = slots(rank_, moved);
    CHECK(std::equal(mine.begin(), mine.end(), flow.outgoing().begin()));
    const Bytes theirs = slots(from, moved);
    std::copy(theirs.begin(), theirs.end(), flow.incoming().begin());
  }

  std::vector<std::pair<int, int>> rounds;  ///< to, from

 private:
  /// The messages of rank, rank + 1, ..., each at a multiple of 64 bytes.
  [[nodiscard]] Bytes slots(int rank, std::size_t size) const {
    Bytes bytes(size);
    for (std::size_t at = 0; at < size; at += (bytes_ + 63) / 64 * 64, ++rank) {
      const Bytes message = message_of_rank(rank % ranks_, bytes_);
      REQUIRE(at + bytes_ <= size);
      std::copy(message.begin(), message.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return bytes;
  }

  std::size_t bytes_;
  int rank_, ranks_;
};

/// The other one of two ranks, which has a status and an array.
class OtherOfTwo {
 public:
  OtherOfTwo(int rank, const std::vector<double>& status, const std::vector<float>& values)
      : rank_(rank) {
    const auto status_bytes = std::as_bytes(std::span(status)),
               value_bytes = std::as_bytes(std::span(values));
    message_.assign(status_bytes.begin(), status_bytes.end());
    message_.insert(message_.end(), value_bytes.begin(), value_bytes.end());
  }

  void operator()(int to, int from, Flow& flow) const {
    CHECK(to == 1 - rank_);
    CHECK(from == 1 - rank_);
    REQUIRE(flow.bytes_to_receive() == message_.size());
    std::copy(message_.begin(), message_.end(), flow.incoming().begin());
  }

 private:
  int rank_;
  Bytes message_;
};

}  // namespace

TEST_CASE(
    "GatheredMessages: ceil(log2 n) rounds bring every rank's message, for any number of ranks") {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int rank = 0; rank < ranks; ++rank)
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{100}}) {
        CAPTURE(ranks);
        CAPTURE(rank);
        CAPTURE(bytes);
        Buffer memory;
        GatheredMessages messages(memory, bytes, rank, ranks);
        const Bytes own = message_of_rank(rank, bytes);
        std::copy(own.begin(), own.end(), messages.of(rank).begin());
        Others others(bytes, rank, ranks);
        messages.exchange(others);
        CHECK(others.rounds.size() == std::bit_width(static_cast<unsigned>(ranks - 1)));
        for (std::size_t round = 0; round < others.rounds.size(); ++round) {
          const int distance = 1 << round;
          CHECK(others.rounds[round].first == (rank - distance + ranks) % ranks);
          CHECK(others.rounds[round].second == (rank + distance) % ranks);
        }
        for (int other = 0; other < ranks; ++other) {
          const auto message = messages.of(other);
          CHECK(Bytes(message.begin(), message.end()) == message_of_rank(other, bytes));
          CHECK(reinterpret_cast<std::uintptr_t>(message.data()) % cache_line == 0);
        }
      }
}

TEST_CASE("GatheredMessages: memory that is large enough is used again") {
  Buffer memory;
  const std::byte* const first = GatheredMessages(memory, 100, 0, 4).of(0).data();
  CHECK(GatheredMessages(memory, 60, 2, 4).of(2).data() == first);
  CHECK(memory.size() == 4 * 128);
  (void)GatheredMessages(memory, 200, 0, 4);
  CHECK(memory.size() == 4 * 256);
}

TEST_CASE("reduce_gathered: status and array come out of one message, in the order of the ranks") {
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    std::vector<double> status{0.5, 2};
    std::vector<float> values{1, 2, 3};
    OtherOfTwo other(rank, {0.25, 4}, {10, -20, 30});
    Buffer memory;
    detail::reduce_gathered(other, rank, 2, memory, status, std::span(values));
    CHECK(status == std::vector<double>{0.75, 6});
    CHECK(values == std::vector<float>{11, -18, 33});
    std::vector<float> largest{1, 2, 3};
    OtherOfTwo again(rank, {}, {10, -20, 30});
    detail::reduce_gathered(again, rank, 2, memory, {}, std::span(largest), ReduceOp::max);
    CHECK(largest == std::vector<float>{10, 2, 30});
  }
}
