#include "lockstep/collectives/ring.hpp"

#include <doctest/doctest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "collectives/harness.hpp"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// A transport outside the library: queues in memory, which count what goes over them.
struct Network {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> queues;
  std::map<std::pair<int, int>, std::size_t> bytes;
};

class QueueTransport {
 public:
  QueueTransport(Network& network, int rank, int size) : network_(&network), rank_(rank), size_(size) {}
  int rank() const { return rank_; }
  int size() const { return size_; }
  void exchange(int to, std::span<const std::byte> out, int from, std::span<std::byte> in) {
    std::unique_lock lock(network_->mutex);
    if (!out.empty()) {
      network_->queues[{rank_, to}].emplace_back(out.begin(), out.end());
      network_->bytes[{rank_, to}] += out.size();
      network_->changed.notify_all();
    }
    if (in.empty()) return;
    auto& queue = network_->queues[{from, rank_}];
    if (!network_->changed.wait_for(lock, std::chrono::seconds(30), [&] { return !queue.empty(); }))
      throw Error("nothing comes");
    if (queue.front().size() != in.size()) throw Error("a message has another length than expected");
    std::copy(queue.front().begin(), queue.front().end(), in.begin());
    queue.pop_front();
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
        if (values != std::vector<float>(count, static_cast<float>(size * (size - 1) / 2))) throw Error("sum");
      }));
      const std::size_t expected =
          2 * (static_cast<std::size_t>(size) - 1) * count * sizeof(float) / static_cast<std::size_t>(size);
      for (const auto& [pair, bytes] : network.bytes) {
        CHECK(pair.second == (pair.first + 1) % size);
        CHECK(bytes == expected);
      }
      for (const auto& [pair, queue] : network.queues) CHECK(queue.empty());
    }
  }
}
