#include "lockstep/collectives/transport_ref.hpp"

#include <doctest/doctest.h>

#include <string_view>
#include <vector>

using namespace lockstep;
using detail::TransportRef;

namespace {

struct Recorder {
  [[nodiscard]] int rank() const { return 2; }
  [[nodiscard]] int size() const { return 5; }
  void transfer(int to, int from, Flow& flow) { transfers.push_back({to, from, &flow}); }
  void abort(std::string_view) noexcept {}

  struct Transfer {
    int to, from;
    Flow* flow;
  };
  std::vector<Transfer> transfers;
};

struct RecorderWithBegin : Recorder {
  void begin(Operation operation) { begun.push_back(operation); }
  std::vector<Operation> begun;
};

}  // namespace

TEST_CASE("TransportRef: passes calls on to the transport, and begin where there is one") {
  SpanFlow flow({}, {});
  Recorder plain;
  const TransportRef without(plain);
  CHECK(without.rank() == 2);
  CHECK(without.size() == 5);
  without.begin(Operation::barrier);
  without.transfer(3, 1, flow);
  REQUIRE(plain.transfers.size() == 1);
  CHECK(plain.transfers[0].to == 3);
  CHECK(plain.transfers[0].from == 1);
  CHECK(plain.transfers[0].flow == &flow);

  RecorderWithBegin other;
  TransportRef(other).begin(Operation::broadcast);
  CHECK(other.begun == std::vector<Operation>{Operation::broadcast});
}
