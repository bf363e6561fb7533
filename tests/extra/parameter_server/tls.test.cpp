// Parameter servers and workers whose connections have TLS. (Each kind of peer by itself:
// collectives/tls/tls_session.test.cpp.)
#include <doctest/doctest.h>

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "extra/parameter_server/served.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/extra/parameter_server/connection.hpp"
#include "lockstep/extra/parameter_server/parameter_servers.hpp"
#include "support/captured_stderr.hpp"
#include "support/certificates.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
namespace lsd = lockstep::detail;
using lockstep_test::Authority;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::message_of;
using lockstep_test::Served;
using lockstep_test::TemporaryFolder;
using lockstep_test::Worker;
using lsd::PsTrust;
using lsd::TlsIdentity;
using namespace std::chrono_literals;

namespace {

const TlsIdentity server_0 = TlsIdentity::parameter_server(0);

PsTrust with_key(TlsIdentity own, const std::string& secret = "correct horse battery staple") {
  const lsd::ClusterSecret known(secret);
  return {.secret = known,
          .tls = lsd::TlsContext::make({.tls = ls::Tls::pre_shared_key, .with_servers = true},
                                       known, own)};
}
PsTrust with_files(TlsIdentity own, const ls::TlsFiles& files) {
  return {.secret = {},
          .tls = lsd::TlsContext::make(
              {.tls = ls::Tls::certificates, .files = files, .with_servers = true}, {}, own)};
}
ls::TlsFiles issue(const Authority& authority, const TlsIdentity& task, long seconds = 3600) {
  return authority.issue(task.dns_name(), task.label() + "-" + std::to_string(seconds), seconds);
}

/// What both sides say when this worker calls this server for as long as a second.
struct Refusals {
  std::string worker, server;
};
Refusals meet(const PsTrust& of_worker, const PsTrust& of_server,
              const std::function<PsTrust(int)>& right_one, int rank = 0, int workers = 1) {
  const CapturedStderr captured;
  Refusals said;
  {
    Served served(workers, std::nullopt, of_server, right_one);
    ls::ParameterServerOptions options = served.options;
    options.startup_timeout = 1s;
    lsd::ParameterClient client(rank, workers, {served.address()}, options, of_worker);
    said.worker = message_of<ls::Error>([&] { (void)client.begin(1, "same"); });
    CAPTURE(said.worker);
    CHECK(contains(said.worker, "parameter server 0 (" + served.address() + ")"));
  }
  said.server = captured.text();
  return said;
}

/// A connection whose bytes pass through the test.
class Tap {
 public:
  Tap() {
    for (auto& pair : pairs_)
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) ==
              0);
    thread_ = std::thread([this] { pass(); });
  }
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;
  ~Tap() {
    is_over_ = true;
    thread_.join();
    for (const auto& pair : pairs_) ::close(pair[1]);
  }

  /// One end, to whom it is given.
  [[nodiscard]] lsd::Descriptor take(std::size_t end) { return lsd::Descriptor(pairs_[end][0]); }
  void damage() { damages_ = true; }
  /// All that has passed; after both ends have been closed.
  [[nodiscard]] std::string finish() {
    is_over_ = true;
    thread_.join();
    thread_ = std::thread([] {});
    return passed_;
  }

 private:
  void pass() {
    std::array<char, 65536> bytes;
    while (!is_over_) {
      std::array<pollfd, 2> ready{{{pairs_[0][1], POLLIN, 0}, {pairs_[1][1], POLLIN, 0}}};
      if (::poll(ready.data(), ready.size(), 5) <= 0) continue;
      for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {
        const ssize_t n = ::recv(pairs_[from][1], bytes.data(), bytes.size(), 0);
        if (n <= 0) continue;
        passed_.append(bytes.data(), static_cast<std::size_t>(n));
        char& last = bytes[static_cast<std::size_t>(n) - 1];
        if (damages_) last = static_cast<char>(last ^ 4);
        for (ssize_t sent = 0; sent < n && !is_over_;) {
          const ssize_t more = ::send(pairs_[1 - from][1], bytes.data() + sent,
                                      static_cast<std::size_t>(n - sent), MSG_NOSIGNAL);
          if (more > 0)
            sent += more;
          else
            std::this_thread::sleep_for(1ms);
        }
      }
    }
  }

  std::array<std::array<int, 2>, 2> pairs_{};
  std::string passed_;
  std::atomic<bool> damages_ = false, is_over_ = false;
  std::thread thread_;
};

}  // namespace

TEST_SUITE("parameter server with tls") {
  TEST_CASE("workers train by keys and by certificates, in rounds and without") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    for (const bool by_key : {true, false}) {
      const auto trust = [&](TlsIdentity own) {
        return by_key ? with_key(own) : with_files(own, issue(authority, own));
      };
      for (const auto staleness : {std::optional<std::int64_t>(0), std::optional<std::int64_t>()}) {
        CAPTURE(by_key);
        Served served(2, staleness, trust(server_0), [&](int rank) { return trust(rank); });
        Worker chief(served, 0, 2), second(served, 1, 2);
        CHECK(chief.client.begin(1, "same").gives_state);
        chief.put(10);
        CHECK_FALSE(second.client.begin(1, "same").gives_state);
        double of_second = 0;
        std::thread other([&] {
          of_second = second.step(2);
          second.client.finish();
          CHECK(second.pull() == 13);
        });
        const double of_chief = chief.step(1);
        chief.client.finish();
        other.join();
        CHECK(chief.pull() == 13);
        if (staleness) {
          CHECK(of_chief == 13);
          CHECK(of_second == 13);
        }
      }
    }
  }

  TEST_CASE("long messages pass both ways, and cannot be read on the way") {
    const std::vector<std::byte> bytes(3'000'000, std::byte{'x'});
    for (const bool has_tls : {true, false}) {
      Tap tap;
      const PsTrust plain;
      std::thread server([&] {
        lsd::PsConnection connection(tap.take(1), 20s);
        CHECK(lsd::admit(connection, has_tls ? with_key(server_0) : plain).rank == 3);
        std::vector<std::byte> got(bytes.size());
        const auto head = connection.receive_head();
        CHECK(head.size == got.size());
        if (head.size != got.size()) return;
        connection.receive(got);
        CHECK(got == bytes);
        connection.send(lsd::PsMessage::reply, {bytes}, 7);
      });
      {
        lsd::PsConnection connection(tap.take(0), 20s);
        lsd::claim_place(connection, has_tls ? with_key(3) : plain, {.rank = 3, .workers = 4});
        connection.send(lsd::PsMessage::put, {bytes});
        std::vector<std::byte> got(bytes.size());
        CHECK(connection.receive_head().number == 7);
        connection.receive(got);
        CHECK(got == bytes);
        server.join();
      }
      const std::string passed = tap.finish();
      CHECK(passed.size() > 2 * bytes.size());
      CHECK(contains(passed, std::string(100, 'x')) == !has_tls);
      CHECK(contains(passed, lsd::Hello::magic) == !has_tls);
    }
  }

  TEST_CASE("what was changed on the way is refused") {
    Tap tap;
    std::string of_server;
    std::thread server([&] {
      lsd::PsConnection connection(tap.take(1), 20s);
      (void)lsd::admit(connection, with_key(server_0));
      connection.send(lsd::PsMessage::reply, "");
      of_server = message_of<lsd::ConnectionLost>([&] { (void)connection.receive_head(); });
    });
    lsd::PsConnection connection(tap.take(0), 20s);
    lsd::claim_place(connection, with_key(3), {.rank = 3, .workers = 4});
    (void)connection.receive_head();
    tap.damage();
    connection.send(lsd::PsMessage::alive, "");
    server.join();
    CHECK(contains(of_server, "TLS refuses what has come: it was changed on the way"));
  }

  TEST_CASE("another secret, and a side without TLS, are named on both sides") {
    const auto right = [](int rank) { return with_key(rank); };
    const Refusals secrets =
        meet(with_key(0, "wrong horse battery staple"), with_key(server_0), right);
    CHECK(contains(secrets.worker,
                   "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this worker"));
    CHECK(contains(secrets.server,
                   "a process at 127.0.0.1 has another cluster secret (LOCKSTEP_CLUSTER_SECRET) "
                   "than this parameter server; it is turned away"));
    PsTrust plain = with_key(0);
    plain.tls = nullptr;
    const Refusals plain_worker = meet(plain, with_key(server_0), right);
    CHECK(contains(plain_worker.worker,
                   "speaks TLS only, and this process does without; "
                   "LOCKSTEP_TLS (or ParameterServerOptions::tls) must be "
                   "the same in all processes"));
    CHECK(contains(plain_worker.server,
                   "a process at 127.0.0.1 speaks without TLS, and this parameter server only with "
                   "it; LOCKSTEP_TLS (or ParameterServerOptions::tls) must be the same in all "
                   "processes; it is turned away"));
    const Refusals plain_server = meet(with_key(0), plain, [&](int) { return plain; });
    CHECK(contains(plain_server.worker,
                   "speaks without TLS, and this worker only with it; LOCKSTEP_TLS"));
    CHECK(contains(plain_server.server,
                   "a process at 127.0.0.1 speaks TLS only, and this process does without; "
                   "LOCKSTEP_TLS"));
  }

  TEST_CASE("the certificate of another task, or an expired one, is refused by name") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    const auto right = [&](int rank) { return with_files(rank, issue(authority, rank)); };
    const PsTrust server = with_files(server_0, issue(authority, server_0));

    const auto claimed = [&](const PsTrust& of_worker, const std::string& name) {
      const Refusals said = meet(of_worker, server, right, 1, 2);
      const std::string why =
          "claims to be worker 1, with a certificate for " + name + ", and not for rank-1.lockstep";
      CHECK(contains(said.worker, "refuses worker 1: this worker " + why));
      CHECK(contains(said.server, "a process at 127.0.0.1 " + why + "; it is turned away"));
    };
    claimed(right(0), "rank-0.lockstep");
    claimed(with_files(TlsIdentity::parameter_server(1),
                       issue(authority, TlsIdentity::parameter_server(1))),
            "ps-1.lockstep");

    // Others in the place of the server: a worker, another server, and its own old certificate.
    const auto refused_server = [&](const PsTrust& instead) {
      const CapturedStderr captured;
      lsd::ListeningSocket listener(lsd::listen_for("127.0.0.1", "", 0));
      const std::string address = "127.0.0.1:" + std::to_string(listener.port());
      const ls::ParameterServerOptions of_server{.timeout = 5s, .startup_timeout = 6s},
          of_worker{.timeout = 5s, .startup_timeout = 3s};
      lockstep_test::Counter keeper;
      lsd::ParameterServer impostor(keeper, {.address = address}, of_server, instead, listener);
      std::thread serving([&] { CHECK_THROWS_AS(impostor.serve(), ls::CollectiveError); });
      Refusals said;
      {
        lsd::ParameterClient client(0, 1, {address}, of_worker, right(0));
        said.worker = message_of<ls::CollectiveError>([&] { (void)client.begin(1, "same"); });
      }
      serving.join();
      said.server = captured.text();
      return said;
    };
    for (const TlsIdentity& other : {TlsIdentity(0), TlsIdentity::parameter_server(1)}) {
      const Refusals said = refused_server(with_files(other, issue(authority, other)));
      CHECK(contains(said.worker,
                     "shows the certificate of another task: it is for " + other.dns_name() +
                         ", not for ps-0.lockstep; LOCKSTEP_TLS_CERTIFICATE must name the one of "
                         "the server's own task"));
      CHECK(contains(said.server, std::string("refuses this ") + other.kind() +
                                      "'s certificate, and says itself why"));
    }

    const PsTrust late_worker = with_files(0, issue(authority, 0, 2)),
                  late_server = with_files(server_0, issue(authority, server_0, 2));
    std::this_thread::sleep_for(3100ms);
    const Refusals of_worker = meet(late_worker, server, right);
    CHECK(contains(of_worker.worker,
                   "refuses this worker's certificate, which has expired by its clock"));
    CHECK(
        contains(of_worker.server,
                 "a process at 127.0.0.1 shows a certificate that has expired, by this machine's"));
    const Refusals of_server = refused_server(late_server);
    CHECK(contains(of_server.worker, "shows a certificate that has expired, by this machine's"));
    CHECK(contains(of_server.server,
                   "refuses this parameter server's certificate, which has expired by its clock"));
  }

  TEST_CASE("what a process is given for TLS is looked at when it starts") {
    const TemporaryFolder folder;
    const Authority authority(folder.path());
    const ls::TlsFiles files{.authority = authority.file(),
                             .certificate = folder.path() + "/{task}.pem",
                             .key = folder.path() + "/{task}.key"};
    (void)authority.issue("rank-1.lockstep", "rank-1");
    (void)authority.issue("rank-1.lockstep", "ps-0");  // a mistake
    const std::vector<std::string> servers{"127.0.0.1:1"};
    const auto started = [&](int rank, int server, const ls::ParameterServerOptions& options) {
      return message_of<ls::ConfigurationError>([&] {
        lsd::ParameterServers process(
            {.rank = rank, .workers = 2, .server = server, .servers = servers}, options);
      });
    };
    ls::ParameterServerOptions options{.tls = ls::Tls::certificates, .tls_files = files};
    CHECK(started(1, -1, options) == "NO EXCEPTION");
    CHECK(contains(started(-1, 0, options),
                   "is for rank-1.lockstep, and this parameter server needs one for "
                   "ps-0.lockstep, the name of its task"));
    options.tls_files.key = folder.path() + "/{rank}.key";
    CHECK(contains(started(-1, 0, options), "a parameter server has none; write {task}"));
    CHECK(contains(started(1, -1, {.tls = ls::Tls::pre_shared_key}),
                   "set LOCKSTEP_CLUSTER_SECRET in all processes"));
    CHECK(contains(started(1, -1, {.tls_files = files}),
                   "ParameterServerOptions::tls_files names files for TLS by certificates, which "
                   "is off"));
  }
}

#endif
