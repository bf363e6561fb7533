// The door of a parameter server: frames, and who is let in.
#include "lockstep/extra/parameter_server/connection.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/core/traffic.hpp"
#include "support/model_testing.hpp"

using namespace std::chrono_literals;
using lockstep::detail::pack_numbers;
using lockstep::detail::unpack_numbers;
using lockstep_test::contains;
using lockstep_test::message_of;

namespace ls = lockstep;
namespace lsd = lockstep::detail;

namespace {

std::array<int, 2> socket_pair() {
  std::array<int, 2> ends{-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return ends;
}

/// Both sides of a conversation's beginning: what each of them ends with.
struct Met {
  std::string worker, server;
  int rank = -1;
};

Met meet(const std::string& secret_of_worker, const std::string& secret_of_server) {
  const auto ends = socket_pair();
  Met met;
  std::thread server([&] {
    lsd::PsConnection connection(lsd::Descriptor{ends[1]}, 5s);
    try {
      met.rank = lsd::admit(connection, {.secret = lsd::ClusterSecret(secret_of_server)}).rank;
      connection.send(lsd::PsMessage::reply, "");
    } catch (const std::exception& error) {
      met.server = error.what();
    }
  });
  {
    lsd::PsConnection connection(lsd::Descriptor{ends[0]}, 5s);
    try {
      lsd::claim_place(connection, {.secret = lsd::ClusterSecret(secret_of_worker)},
                       {.rank = 3, .workers = 4});
      const auto head = connection.receive_head();
      if (head.kind == lsd::PsMessage::refusal) met.worker = connection.receive_text(head, 1000);
    } catch (const std::exception& error) {
      met.worker = error.what();
    }
  }
  server.join();
  return met;
}

}  // namespace

TEST_CASE("parameter server connection: frames keep kind, number and bytes") {
  const auto ends = socket_pair();
  lsd::PsConnection from(lsd::Descriptor{ends[0]}, 5s), to(lsd::Descriptor{ends[1]}, 5s);
  const std::vector<std::byte> bytes(100'000, std::byte{7});
  const ls::Traffic before = ls::traffic();
  std::thread sender([&] {
    from.send(lsd::PsMessage::step, {lsd::pack_numbers(0.5, std::uint64_t{9}), bytes}, 42);
    from.send(lsd::PsMessage::waiting, "worker 1");
  });
  const auto head = to.receive_head();
  CHECK(head.kind == lsd::PsMessage::step);
  CHECK(head.number == 42);
  REQUIRE(head.size == bytes.size() + 16);
  std::array<std::byte, 16> numbers{};
  to.receive(numbers);
  double half = 0;
  std::uint64_t nine = 0;
  lsd::unpack_numbers(numbers, half, nine);
  CHECK(half == 0.5);
  CHECK(nine == 9);
  std::vector<std::byte> got(bytes.size());
  to.receive(got);
  CHECK(got == bytes);
  CHECK(to.receive_text(to.receive_head(), 100) == "worker 1");
  sender.join();
  CHECK(ls::traffic().sent - before.sent == bytes.size() + 16 + 8);
  CHECK(ls::traffic().received - before.received == bytes.size() + 16 + 8);

  SUBCASE("a text that is too long is refused before memory is taken") {
    from.send(lsd::PsMessage::waiting, std::string(101, 'x'));
    const auto long_text = to.receive_head();
    CHECK(contains(message_of<lsd::ConnectionLost>([&] { (void)to.receive_text(long_text, 100); }),
                   "sends 101 bytes where at most 100 are expected"));
  }
  SUBCASE("the end, silence and strangers are told apart") {
    CHECK_FALSE(to.has_ended());
    from.shut_down();
    CHECK(to.has_ended());
    CHECK(contains(message_of<lsd::ConnectionLost>([&] { (void)to.receive_head(); }),
                   "closed the connection"));
    const auto others = socket_pair();
    lsd::PsConnection silent(lsd::Descriptor{others[0]}, 20ms);
    CHECK(contains(message_of<lsd::ConnectionLost>([&] { (void)silent.receive_head(); }),
                   "has been silent for 20 ms"));
    const std::string http = "GET / HTTP/1.1\r\nHost: example\r\n\r\n";
    REQUIRE(::send(others[1], http.data(), http.size(), 0) > 0);
    CHECK(contains(message_of<lsd::ConnectionLost>([&] { (void)silent.receive_head(); }),
                   "is another program, which does not speak this protocol"));
    lsd::Descriptor closing(others[1]);
  }
}

TEST_CASE(
    "parameter server connection: a stranger that sends byte after byte keeps nobody waiting") {
  const auto ends = socket_pair();
  lsd::PsConnection worker(lsd::Descriptor{ends[0]}, 5s);
  const std::string hello = lsd::Hello::of_talk(lsd::ps_kind).encode();
  std::thread stranger([end = lsd::Descriptor{ends[1]}, &hello] {
    for (const char& byte : hello) {
      if (::send(end.get(), &byte, 1, MSG_NOSIGNAL) < 0) return;
      std::this_thread::sleep_for(100ms);
    }
  });
  worker.limit_stranger(std::chrono::steady_clock::now() + 300ms);
  CHECK(message_of<lsd::PeerSilent>([&] {
          lsd::claim_place(worker, {}, {.rank = 3, .workers = 4});
        }) == "has not shown in time who it is");
  worker.shut_down();
  stranger.join();
}

TEST_CASE("parameter server connection: without a secret a worker is believed") {
  const Met met = meet("", "");
  CHECK(met.worker == "");
  CHECK(met.server == "");
  CHECK(met.rank == 3);
}

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
TEST_CASE("parameter server connection: the cluster secret opens the door, and nothing else") {
  const std::string secret = "the secret of this cluster", other = "the secret of another one";
  CHECK(meet(secret, secret).rank == 3);

  const Met none = meet("", secret);
  CHECK(contains(none.worker, "it has a cluster secret (LOCKSTEP_CLUSTER_SECRET)"));
  CHECK(contains(none.server,
                 "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this server has one"));
  CHECK(none.rank == -1);

  const Met wrong = meet(other, secret);
  CHECK(contains(wrong.worker,
                 "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this worker"));
  CHECK(contains(wrong.server,
                 "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this server"));
  CHECK(wrong.rank == -1);

  const Met open_server = meet(secret, "");
  CHECK(
      contains(open_server.worker, "has no cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker"));
  CHECK(
      contains(open_server.server, "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this server"));
  CHECK(open_server.rank == -1);
}
#endif

TEST_CASE("numbers of messages: 8 bytes each, little-endian, one after the other") {
  const auto bytes = pack_numbers(std::uint64_t{0x0102}, std::int64_t{-1}, 1.0);
  std::array<std::byte, 24> expected{};
  expected[0] = std::byte{2};
  expected[1] = std::byte{1};
  for (std::size_t i = 8; i < 16; ++i) expected[i] = std::byte{0xff};
  expected[22] = std::byte{0xf0};  // 1.0 is 0x3ff0000000000000
  expected[23] = std::byte{0x3f};
  CHECK((bytes == expected));
  std::uint64_t first = 0;
  std::int64_t second = 0;
  double third = 0;
  unpack_numbers(bytes, first, second, third);
  CHECK(first == 0x0102);
  CHECK(second == -1);
  CHECK(third == 1.0);
}
