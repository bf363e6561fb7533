#include "lockstep/collectives/concepts.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring.hpp"

using namespace lockstep;

namespace {

/// The least that the concept asks for.
struct MinimalTransport {
  int rank() const { return 0; }
  int size() const { return 1; }
  void transfer(int, int, Flow&) {}
  void abort(std::string_view) noexcept {}
};
static_assert(Transport<MinimalTransport>);

struct TransportWithoutTransfer {
  int rank() const { return 0; }
  int size() const { return 1; }
  void abort(std::string_view) noexcept {}
};
static_assert(!Transport<TransportWithoutTransfer>);

struct TransportThatThrowsOnAbort : MinimalTransport {
  void abort(std::string_view) {}
};
static_assert(!Transport<TransportThatThrowsOnAbort>);

struct TransportOfUnsignedRanks : MinimalTransport {
  unsigned rank() const { return 0; }
};
static_assert(!Transport<TransportOfUnsignedRanks>);

struct MinimalCollective {
  int rank() const { return 0; }
  int size() const { return 1; }
  void all_reduce(std::span<float>, ReduceOp) {}
  void all_reduce(std::span<double>, ReduceOp) {}
  void all_reduce(std::span<std::int64_t>, ReduceOp) {}
  void all_reduce(std::span<double>, std::span<float>) {}
  void all_reduce(std::span<double>, std::span<double>) {}
  void broadcast(std::span<std::byte>, int) {}
  void all_gather(std::span<const std::byte>, std::span<std::byte>) {}
  void barrier() {}
  void abort(std::string_view) noexcept {}
};
static_assert(Collective<MinimalCollective>);
static_assert(!Collective<MinimalTransport>);
static_assert(!Transport<MinimalCollective>);

struct CollectiveWithoutIntegers : MinimalCollective {
  void all_reduce(std::span<float>, ReduceOp) {}
  void all_reduce(std::span<double>, ReduceOp) {}
  void all_reduce(std::span<double>, std::span<float>) {}
  void all_reduce(std::span<double>, std::span<double>) {}
};
static_assert(!Collective<CollectiveWithoutIntegers>);

struct CollectiveWithoutStatus : MinimalCollective {
  void all_reduce(std::span<float>, ReduceOp) {}
  void all_reduce(std::span<double>, ReduceOp) {}
  void all_reduce(std::span<std::int64_t>, ReduceOp) {}
};
static_assert(!Collective<CollectiveWithoutStatus>);

struct CollectiveWithoutBarrier : MinimalCollective {
  void barrier() = delete;
};
static_assert(!Collective<CollectiveWithoutBarrier>);

/// A user's own way to connect.
struct MinimalPolicy : MinimalCollective {
  static MinimalPolicy connect(const Rendezvous&, const CommunicationOptions&) { return {}; }
};
static_assert(CollectivePolicy<MinimalPolicy>);
static_assert(!CollectivePolicy<MinimalCollective>);

/// What it connects need not be of its own type, but must be a collective.
struct PolicyThatConnectsAnother {
  static MinimalPolicy connect(const Rendezvous&, const CommunicationOptions&) { return {}; }
};
static_assert(CollectivePolicy<PolicyThatConnectsAnother>);

struct PolicyThatConnectsNothing {
  static int connect(const Rendezvous&, const CommunicationOptions&) { return 0; }
};
static_assert(!CollectivePolicy<PolicyThatConnectsNothing>);

static_assert(Collective<Ring<MinimalTransport>>);

}  // namespace

TEST_CASE("collectives: concepts accept minimal models and reject near misses") {
  Ring<MinimalTransport> ring{MinimalTransport{}};
  float value = 2;
  ring.all_reduce(std::span(&value, 1));
  ring.abort("nothing happens");
  CHECK(ring.board() == nullptr);
  CHECK(value == 2);
}
