// Workers whose connections have TLS. (Each kind of peer by itself: tls/tls_session.test.cpp.)
#include <doctest/doctest.h>

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "collectives/harness.hpp"
#include "collectives/relay.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "support/call_port.hpp"
#include "support/captured_stderr.hpp"
#include "support/certificates.hpp"
#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;
using lockstep::detail::TlsSession;

namespace {

using TcpRing = Ring<Tcp>;

const std::string secret = "correct horse battery staple";

CommunicationOptions with_key() {
  CommunicationOptions options = patient_options();
  options.tls = Tls::pre_shared_key;
  return options;
}
CommunicationOptions with_files(const TlsFiles& files) {
  CommunicationOptions options = patient_options();
  options.tls = Tls::certificates;
  options.tls_files = files;
  return options;
}

std::vector<Rendezvous> places_of(LocalCluster& cluster, const std::string& known = secret) {
  std::vector<Rendezvous> places;
  for (int rank = 0; rank < static_cast<int>(cluster.addresses.size()); ++rank) {
    places.push_back(cluster.place(rank));
    places.back().secret = known;
  }
  return places;
}

/// What each rank says when two of these meet, for as long as they try.
std::vector<std::string> messages(const std::vector<Rendezvous>& places,
                                  std::vector<CommunicationOptions> options) {
  const lockstep_test::CapturedStderr captured;
  std::vector<std::string> texts;
  for (const auto& exception : run_threads(2, [&](int rank) {
         const auto i = static_cast<std::size_t>(rank);
         options[i].startup_timeout = 3s;
         (void)TcpRing::connect(places[i], options[i]);
       }))
    texts.push_back(message_of(exception));
  return texts;
}

/// What a process that calls a worker's port hears from it.
detail::Handshake ask(std::uint16_t port, const CommunicationOptions& options,
                      const TlsFiles& files, int own_rank, const detail::Hello& mine,
                      const std::string& known) {
  const detail::ClusterSecret shared(known);
  const auto context =
      detail::TlsContext::make({.tls = options.tls, .files = files}, shared, own_rank);
  const auto socket = lockstep_test::call_port(port);
  REQUIRE(socket.is_open());
  ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  const auto session = TlsSession::call(context, socket.get(), 0);
  const auto wait = [&](short events) {
    pollfd ready{socket.get(), events, 0};
    REQUIRE(::poll(&ready, 1, 30'000) == 1);
  };
  while (session->advance() != TlsSession::State::established) {
    REQUIRE(session->state() != TlsSession::State::failed);
    wait(session->state() == TlsSession::State::wants_read ? POLLIN : POLLOUT);
  }
  auto handshake = detail::Handshake::caller(mine, shared, 0, detail::Hello::Channel::control);
  while (handshake.outcome() == detail::Handshake::Outcome::open) {
    while (!handshake.out().empty())
      handshake.sent(static_cast<std::size_t>(
          std::max<ssize_t>(0, session->write(handshake.out().data(), handshake.out().size()))));
    std::array<char, 4096> bytes;
    wait(POLLIN);
    const ssize_t n = session->read(bytes.data(), std::min(bytes.size(), handshake.wanted()));
    if (n == 0 || (n < 0 && errno != EAGAIN)) break;
    if (n > 0) handshake.take({bytes.data(), static_cast<std::size_t>(n)});
  }
  return handshake;
}

}  // namespace

TEST_SUITE("tcp with tls") {
  TEST_CASE("sums have the bits of plain connections, by keys and by certificates") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    for (const int size : {2, 3}) {
      const std::size_t count = 2 * block_elements + 4099;
      std::vector<std::vector<float>> inputs;
      std::vector<TlsFiles> files;
      for (int rank = 0; rank < size; ++rank) {
        inputs.push_back(random_numbers<float>(rank, count));
        files.push_back(authority.issue(rank));
      }
      const auto expected = contract_sum(inputs);
      for (const Tls tls : {Tls::pre_shared_key, Tls::certificates}) {
        CAPTURE(size);
        CAPTURE(to_string(tls));
        LocalCluster cluster(size);
        const auto places = places_of(cluster, tls == Tls::certificates ? "" : secret);
        std::vector<char> equal(static_cast<std::size_t>(size));
        rethrow_first(run_threads(size, [&](int rank) {
          const auto i = static_cast<std::size_t>(rank);
          CommunicationOptions options =
              tls == Tls::certificates ? with_files(files[i]) : with_key();
          options.checksum = size == 3;
          options.connections = size;
          auto ring = TcpRing::connect(places[i], options);
          for (int step = 0; step < 3; ++step) {
            auto values = inputs[i];
            std::vector<double> status(5, 1);
            ring.all_reduce(std::span(status), std::span(values));
            ring.barrier();
            equal[i] = values == expected && status == std::vector<double>(5, size);
            if (!equal[i]) break;
          }
          ring.close();
        }));
        CHECK(equal == std::vector<char>(static_cast<std::size_t>(size), 1));
      }
    }
  }

  TEST_CASE("another secret, and a worker without TLS, are named on both sides") {
    LocalCluster cluster(2);
    auto places = places_of(cluster);
    std::string first, second;
    std::vector<CommunicationOptions> options(2, with_key());
    SUBCASE("another secret") {
      places[1].secret = "wrong horse battery staple";
      first = second = "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this worker";
    }
    SUBCASE("no TLS on rank 0") {
      options[0].tls = Tls::off;
      first = "speaks TLS only, and this worker does without; LOCKSTEP_TLS";
      second = "speaks without TLS, and this worker only with it; LOCKSTEP_TLS";
    }
    SUBCASE("no TLS on rank 1") {
      options[1].tls = Tls::off;
      first = "speaks without TLS, and this worker only with it; LOCKSTEP_TLS";
      second = "speaks TLS only, and this worker does without; LOCKSTEP_TLS";
    }
    const auto texts = messages(places, options);
    CAPTURE(texts[0]);
    CAPTURE(texts[1]);
    CHECK(contains(texts[0], first));
    CHECK(contains(texts[1], second));
    CHECK(contains(texts[0], "worker 1 (127.0.0.1:"));
    CHECK(contains(texts[1], "worker 0 (127.0.0.1:"));
  }

  TEST_CASE("a process with the certificate of another rank does not get a place") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    LocalCluster cluster(3);
    const std::uint16_t port = cluster.listeners[0].port();
    const auto places = places_of(cluster, "");
    const TlsFiles zero = authority.issue(0), two = authority.issue(2);
    const lockstep_test::CapturedStderr captured;
    const auto thrown = run_threads(2, [&](int i) {
      CommunicationOptions options = with_files(zero);
      options.startup_timeout = 3s;
      if (i == 0) {
        (void)TcpRing::connect(places[0], options);
        return;
      }
      detail::Hello mine;
      mine.from = 1;
      mine.incarnation = 1;
      mine.addresses = cluster.addresses;
      (void)ask(port, options, two, 2, mine, "");
    });
    const std::string text = message_of(thrown[0]);
    CAPTURE(text);
    CHECK(message_of(thrown[1]).empty());
    CHECK(contains(text,
                   "claims to be worker 1, with a certificate for rank-2.lockstep, and not for "
                   "rank-1.lockstep"));
    CHECK(
        contains(captured.text(), "claims to be worker 1, with a certificate for rank-2.lockstep"));
    CHECK_THROWS_AS((void)TcpRing::connect(places[1], with_files(two)), ConfigurationError);
  }

  TEST_CASE("in an elastic world, a rank has the certificate of its place in the cluster") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    const std::vector<int> workers{1, 2, 4};
    std::vector<TlsFiles> files;
    for (const int worker : workers) files.push_back(authority.issue(worker));
    LocalCluster cluster(3);
    auto places = places_of(cluster, "");
    for (Rendezvous& place : places) place.workers = workers;
    std::vector<float> sums(3);
    rethrow_first(run_threads(3, [&](int rank) {
      const auto i = static_cast<std::size_t>(rank);
      auto ring = TcpRing::connect(places[i], with_files(files[i]));
      std::vector<float> values(1, static_cast<float>(workers[i]));
      ring.all_reduce(std::span(values));
      sums[i] = values[0];
      ring.close();
    }));
    CHECK(sums == std::vector<float>(3, 7));
    // The certificate of the rank's own number belongs to another worker.
    LocalCluster next(3);
    auto places_next = places_of(next, "");
    for (Rendezvous& place : places_next) place.workers = workers;
    CHECK_THROWS_WITH_AS(
        (void)TcpRing::connect(places_next[1], with_files(files[0])),
        doctest::Contains("is for rank-1.lockstep, and this worker needs one for rank-2.lockstep"),
        ConfigurationError);
  }

  TEST_CASE("in an elastic world, a certificate for the number of the rank is another worker's") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    const TlsFiles zero = authority.issue(0), one = authority.issue(1);
    LocalCluster cluster(2);
    const std::uint16_t port = cluster.listeners[0].port();
    auto places = places_of(cluster, "");
    places[0].workers = {0, 2};
    const lockstep_test::CapturedStderr captured;
    const auto thrown = run_threads(2, [&](int i) {
      if (i == 0) {
        CommunicationOptions options = with_files(zero);
        options.startup_timeout = 3s;
        (void)TcpRing::connect(places[0], options);
        return;
      }
      detail::Hello mine;
      mine.from = 1;
      mine.incarnation = 1;
      mine.addresses = cluster.addresses;
      (void)ask(port, with_files(one), one, 1, mine, "");
    });
    const std::string text = message_of(thrown[0]);
    CAPTURE(text);
    CHECK(message_of(thrown[1]).empty());
    CHECK(contains(text,
                   "claims to be worker 2, with a certificate for rank-1.lockstep, and not "
                   "for rank-2.lockstep"));
  }

  TEST_CASE("in an elastic world, a callee must be the worker that is expected") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    LocalCluster cluster(2);
    auto places = places_of(cluster, "");
    places[0].workers = {1, 2};  // rank 0 is worker 1
    places[1].workers = {0, 2};  // and is taken for worker 0
    const auto texts =
        messages(places, {with_files(authority.issue(1)), with_files(authority.issue(2))});
    CAPTURE(texts[0]);
    CAPTURE(texts[1]);
    CHECK(contains(texts[1],
                   "shows the certificate of another worker: it is for rank-1.lockstep, not for "
                   "rank-0.lockstep"));
  }

  TEST_CASE("bytes that change on the way end the operation on both ranks") {
    RelayedCluster cluster(2);
    std::vector<Rendezvous> places{cluster.place(0), cluster.place(1)};
    for (Rendezvous& place : places) place.secret = secret;
    std::atomic<int> connected = 0;
    const auto thrown = run_threads(2, [&](int rank) {
      auto ring = TcpRing::connect(places[static_cast<std::size_t>(rank)], with_key());
      ring.barrier();
      ++connected;
      for (int wait = 0; connected < 2 && wait < 6000; ++wait) std::this_thread::sleep_for(10ms);
      if (rank == 0) cluster.between(0, 1).damage();
      std::vector<float> values(1'000'000, 1);
      for (int i = 0; i < 3; ++i) ring.all_reduce(std::span(values));
    });
    bool is_named = false;
    for (const auto& exception : thrown) {
      const CollectiveFailure failure = failure_of(exception);
      CAPTURE(failure.reason);
      CHECK(contains(message_of(exception), "worker "));
      is_named = is_named || contains(failure.reason, "TLS refuses what has come");
    }
    CHECK(is_named);
  }

  TEST_CASE("a connection that ends without a word is a lost rank, by its name") {
    LocalCluster cluster(2);
    const auto places = places_of(cluster);
    const auto thrown = run_threads(2, [&](int rank) {
      auto ring = TcpRing::connect(places[static_cast<std::size_t>(rank)], with_key());
      ring.barrier();
      if (rank == 1) return;
      std::vector<float> values(1'000'000, 1);
      ring.all_reduce(std::span(values));
    });
    CHECK(failure_of(thrown[0]).failed_rank == 1);
    CHECK(contains(message_of(thrown[0]), "worker 1 (127.0.0.1:"));
  }

  TEST_CASE("at work, the port answers inside TLS only") {
    LocalCluster cluster(2);
    const std::uint16_t port = cluster.listeners[0].port();
    const auto places = places_of(cluster);
    std::atomic<int> connected = 0;
    std::atomic<bool> over = false;
    rethrow_first(run_threads(3, [&](int i) {
      if (i < 2) {
        auto ring = TcpRing::connect(places[static_cast<std::size_t>(i)], with_key());
        ++connected;
        std::vector<float> values(1000);
        do {
          values.assign(values.size(), over ? 1.0F : 0.0F);
          ring.all_reduce(std::span(values));
        } while (values[0] == 0);
        return ring.close();
      }
      const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> in_any_case(
          &over, [](std::atomic<bool>* flag) { *flag = true; });
      for (int wait = 0; connected < 2 && wait < 6000; ++wait) std::this_thread::sleep_for(10ms);
      detail::Hello mine;
      mine.from = 1;
      mine.incarnation = 1;
      mine.addresses = cluster.addresses;
      CHECK(ask(port, with_key(), {}, 1, mine, secret).outcome() ==
            detail::Handshake::Outcome::at_work);
      // A caller without TLS gets an alert, and no answer.
      const auto plain = lockstep_test::call_port(port);
      REQUIRE(plain.is_open());
      const std::string hello = mine.encode();
      CHECK(::send(plain.get(), hello.data(), hello.size(), MSG_NOSIGNAL) > 0);
      char answer[64];
      const timeval limit{30, 0};
      ::setsockopt(plain.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      CHECK(::recv(plain.get(), answer, sizeof answer, 0) == 7);
      CHECK(answer[0] == 21);
    }));
  }
}

#endif
