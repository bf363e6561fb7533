// A parameter server, and workers that are slow, break off and ask twice.
#include "lockstep/extra/parameter_server/server.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "extra/parameter_server/served.hpp"
#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/extra/parameter_server/client.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/parameter_servers.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
namespace lsd = lockstep::detail;
using lockstep_test::contains;
using lockstep_test::message_of;
using lockstep_test::Served;
using lockstep_test::Worker;
using namespace std::chrono_literals;

namespace {

/// A worker's connection, message by message.
class Line {
 public:
  Line(const Served& served, lsd::PsClaim claim)
      : socket_(-1), connection_(call(served.address(), socket_), 20s) {
    claim.max_staleness = served.options.max_staleness.value_or(-1);
    lsd::claim_place(connection_, {}, claim);
  }

  void send(lsd::PsMessage kind, lsd::PsConnection::Parts parts, std::uint64_t number = 0) {
    connection_.send(kind, parts, number);
  }
  void begin(std::string_view signature) {
    send(lsd::PsMessage::begin,
         {lsd::pack_numbers(std::uint64_t{1}), std::as_bytes(std::span(signature))});
  }
  void step(double gradient, std::uint64_t number) {
    const double status = 0;
    send(lsd::PsMessage::step,
         {lsd::pack_numbers(0.1, std::uint64_t{0}, std::uint64_t{0}),
          std::as_bytes(std::span(&status, 1)), std::as_bytes(std::span(&gradient, 1))},
         number);
  }
  /// The bytes of the next reply; those that say that it waits are passed over, 20 of them at most.
  std::vector<std::byte> reply() {
    for (int i = 0; i < 20; ++i) {
      const auto head = connection_.receive_head();
      std::vector<std::byte> bytes(head.size);
      connection_.receive(bytes);
      if (head.kind == lsd::PsMessage::reply) return bytes;
    }
    throw lsd::ConnectionLost("still waits");
  }
  /// Why the server refuses what was asked.
  std::string refusal() {
    const auto head = connection_.receive_head();
    CHECK(head.kind == lsd::PsMessage::refusal);
    CHECK(head.number == static_cast<std::uint64_t>(ls::ExitCode::usage));
    return connection_.receive_text(head, 1000);
  }
  bool has_ended() const { return connection_.has_ended(); }
  /// The connection's end is a reset: what the server sends then fails.
  void reset_when_closed() const {
    const linger none{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  }

 private:
  static lsd::Descriptor call(const std::string& address, int& descriptor) {
    std::string why;
    const auto place = ls::parse_address(address);
    auto socket = lsd::call_socket(lsd::resolve(place.host, place.port, why).front(),
                                   std::chrono::steady_clock::now() + 20s, why);
    REQUIRE(socket.is_open());
    descriptor = socket.get();
    return socket;
  }

  int socket_;
  lsd::PsConnection connection_;
};

}  // namespace

TEST_CASE("parameter server: the next fit begins when all have taken what the last one has made") {
  Served served(2);
  Worker chief(served, 0, 2), second(served, 1, 2);
  CHECK(chief.client.begin(1, "same").gives_state);
  chief.put(1);
  CHECK_FALSE(second.client.begin(1, "same").gives_state);
  std::thread ahead([&] {
    chief.client.finish();
    CHECK(chief.pull() == 1);
    CHECK(chief.client.begin(2, "same").gives_state);
    chief.put(2);
  });
  second.client.finish();
  std::this_thread::sleep_for(50ms);
  CHECK(second.pull() == 1);
  CHECK_FALSE(second.client.begin(2, "same").gives_state);
  CHECK(second.pull() == 2);
  ahead.join();
}

TEST_CASE("parameter server: one that begins a later fit is no longer in the former one") {
  Served served(1);
  Worker chief(served, 0, 1);
  CHECK(chief.client.begin(1, "same").gives_state);
  chief.put(1);
  chief.put(7);  // as when the reply has been lost: it is taken once
  CHECK(chief.pull() == 1);
  CHECK(chief.client.begin(2, "same").gives_state);
  chief.put(2);
  CHECK(chief.pull() == 2);
}

TEST_CASE("parameter server: one that holds nothing gives nothing, and says why") {
  const lockstep_test::CapturedStderr captured;
  Served served(1);
  const std::string why = "without what it held before, since it has no backup";
  Worker worker(served, 0, 1);
  CHECK(contains(message_of<ls::CollectiveError>([&] { (void)worker.pull(); }), why));
  CHECK(contains(message_of<ls::CollectiveError>([&] { worker.client.finish(); }), why));
  CHECK(contains(message_of<ls::CollectiveError>([&] { worker.put(1); }), why));
  const std::string line = "worker 0 is turned away: this server was started again, " + why;
  for (int i = 0; i < 2000 && !contains(captured.text(), line); ++i)
    std::this_thread::sleep_for(10ms);  // it answers first
  CHECK(contains(captured.text(), line));
  CHECK_FALSE(contains(captured.text(), "may come back"));
}

TEST_CASE("parameter server: a step whose reply was lost is answered, and applied once") {
  Served served(1, 1);
  const lsd::PsClaim claim{.rank = 0, .workers = 1, .server = 0, .servers = 1, .process = 7};
  const double zero = 0;
  const auto parameter = [](const std::vector<std::byte>& reply) {
    double value = -1;
    REQUIRE(reply.size() == 2 * sizeof value);
    std::memcpy(&value, reply.data() + sizeof value, sizeof value);
    return value;
  };
  {
    Line line(served, claim);
    (void)line.reply();
    line.begin("same");
    (void)line.reply();
    line.send(lsd::PsMessage::put, {std::as_bytes(std::span(&zero, 1))}, 1);
    (void)line.reply();
    for (std::uint64_t i = 1; i <= 3; ++i) {
      line.step(0.5, i);
      CHECK(parameter(line.reply()) == 0.5 * static_cast<double>(i));
    }
  }
  Line line(served, claim);
  (void)line.reply();
  line.step(0.5, 3);
  CHECK(parameter(line.reply()) == 1.5);
  line.step(0.5, 4);
  CHECK(parameter(line.reply()) == 2);
}

TEST_CASE("parameter server: a server that did not see a worker begin takes its finish") {
  Served served(2);
  Worker chief(served, 0, 2);
  CHECK(chief.client.begin(1, "same").gives_state);
  chief.put(1);
  Line second(served, {.rank = 1, .workers = 2, .server = 0, .servers = 1, .process = 7});
  (void)second.reply();
  second.send(lsd::PsMessage::finish, {}, 1);  // as after a restart: it has begun before
  std::thread ahead([&] {
    chief.client.finish();
    CHECK(chief.client.begin(2, "same").gives_state);
  });
  CHECK(second.reply().empty());
  second.send(lsd::PsMessage::pull, {});
  CHECK(second.reply().size() == sizeof(double));
  second.send(lsd::PsMessage::settle, {lsd::pack_numbers(std::uint64_t{0})}, 1);
  CHECK(second.reply().empty());  // the chief has gone on
  ahead.join();
  second.send(lsd::PsMessage::finish, {}, 1);  // as when the reply has been lost
  CHECK(second.reply().empty());
}

TEST_CASE("parameter server: a worker that goes before it hears of its place leaves it") {
  Served served(1);
  const lsd::PsClaim first{.rank = 0, .workers = 1, .server = 0, .servers = 1, .process = 7};
  lsd::PsClaim other = first;
  other.process = 8;
  const auto wait_for = [](const auto& condition) {
    for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
    REQUIRE(condition());
  };
  Line holder(served, first);
  (void)holder.reply();
  holder.begin("waits");
  wait_for([&] { return served.keeper.is_asked.load(); });
  {
    const Line claimant(served, other);
    wait_for([&] { return holder.has_ended(); });  // its claim is heard, and it waits for the place
    claimant.reset_when_closed();
  }
  served.keeper.may_answer = true;
  Worker next(served, 0, 1);
  CHECK(next.client.begin(1, "same").gives_state);
}

TEST_CASE("parameter server: of two processes with one rank, the one that has lost it is told") {
  const lockstep_test::CapturedStderr captured;
  Served served(1);
  const lsd::PsClaim first{.rank = 0, .workers = 1, .server = 0, .servers = 1, .process = 7};
  lsd::PsClaim second = first;
  second.process = 8;
  Line loser(served, first);
  (void)loser.reply();
  {
    Line winner(served, second);
    (void)winner.reply();
    CHECK(contains(captured.text(), "another process takes the place of worker 0"));
    Line again(served, first);
    CHECK(contains(again.refusal(), "another process has taken the place of worker 0"));
    winner.begin("same");
    CHECK_FALSE(winner.reply().empty());  // no other process has taken its place
  }
  // The other one has gone: the place is free, as it is for the successor of one that has died.
  const auto both_are_lost = [&] {
    const std::string text = captured.text(), loss = "worker 0 is lost";
    const auto at = text.find(loss);
    return at != std::string::npos && text.find(loss, at + 1) != std::string::npos;
  };
  for (int i = 0; i < 2000 && !both_are_lost(); ++i) std::this_thread::sleep_for(10ms);
  Line heir(served, first);
  CHECK(heir.reply().empty());
}

TEST_CASE("parameter server: strangers that say nothing do not keep a worker out") {
  Served served(1);
  const auto place = ls::parse_address(served.address());
  std::string why;
  const lsd::SocketName name = lsd::resolve(place.host, place.port, why).front();
  std::vector<lsd::Descriptor> strangers;
  for (int i = 0; i < 400; ++i) {
    strangers.push_back(lsd::call_socket(name, std::chrono::steady_clock::now() + 20s, why));
    REQUIRE(strangers.back().is_open());
  }
  // The first connection is taken: that of a worker which is turned away has to be made anew.
  Line line(served, {.rank = 0, .workers = 1, .server = 0, .servers = 1, .process = 7});
  CHECK(line.reply().empty());
  Worker worker(served, 0, 1);  // (takes the place)
  CHECK(worker.client.begin(1, "same").gives_state);
  worker.put(1);
  for (int i = 0; i < 10; ++i) CHECK(worker.step(1) == 2 + i);
}

TEST_CASE("parameter server: a worker says that its server is silent, before it counts as lost") {
  const lockstep_test::CapturedStderr captured;
  // A stopped process: the system accepts the connection, and the process never answers.
  const lsd::Descriptor stopped = lsd::listen_for("127.0.0.1", "", 0);
  const std::string address =
      "127.0.0.1:" + std::to_string(lsd::port_of(lsd::own_name(stopped.get())));
  const ls::ParameterServerOptions options{.timeout = 8s, .startup_timeout = 8s};
  lsd::ParameterClient client(1, 2, {address}, options, {});
  CHECK(contains(message_of<ls::CollectiveError>([&] { (void)client.begin(1, "same"); }),
                 "has been silent for 8 s"));
  CHECK(contains(captured.text(), "worker 1 waits for parameter server 0 (" + address +
                                      "), which has been silent for 5 s; after 8 s "
                                      "(ParameterServerOptions::timeout) its connection counts as "
                                      "lost\n"));
}

TEST_CASE("parameter server: a port that is taken is waited for") {
  lsd::Descriptor taken = lsd::listen_for("127.0.0.1", "", 0);
  const std::string address =
      "127.0.0.1:" + std::to_string(lsd::port_of(lsd::own_name(taken.get())));
  const lsd::ParameterServers::Place place{.rank = -1, .server = 0, .servers = {address}};
  const lockstep_test::CapturedStderr captured;
  CHECK(contains(message_of<ls::ConfigurationError>(
                     [&] { lsd::ParameterServers server(place, {.startup_timeout = 50ms}); }),
                 "another program, or another server with the same task, has it"));
  std::thread owner([&] {
    std::this_thread::sleep_for(50ms);
    taken.close();
  });
  const lsd::ParameterServers server(place, {.startup_timeout = 60s});
  owner.join();
  CHECK(contains(captured.text(), "is taken; it waits for it for 60 s"));
}
