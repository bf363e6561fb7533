#include "lockstep/collectives/tcp/tcp.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <future>

#include "collectives/harness.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "support/call_port.hpp"
#include "support/captured_stderr.hpp"
#include "support/messages.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

using TcpRing = Ring<Tcp>;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Of rank 1 of two, with a port; none listens at rank 0's.
Rendezvous without_rank_zero() {
  Listener listener, missing;
  Rendezvous place;
  place.rank = 1;
  place.addresses = {missing.address(), listener.address()};
  ::close(missing.release());
  place.listen_socket = listener.release();
  return place;
}

/// A connection to a worker's port that speaks no protocol, unless it is told what to say.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : socket_(lockstep_test::call_port(port)) {
    REQUIRE(socket_.is_open());
  }
  void say(std::string_view text) {
    (void)!::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  std::string hear() {
    timeval limit{5, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char bytes[4096];
    const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, 0);
    return n > 0 ? std::string(bytes, static_cast<std::size_t>(n)) : std::string();
  }

 private:
  detail::Descriptor socket_;
};

/// A rank in a process of its own, to be killed or stopped.
class RankProcess {
 public:
  template <class F>
  explicit RankProcess(F f) : process_(::fork()) {
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      try {
        f();
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
  }
  ~RankProcess() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  void send(int signal) const { ::kill(process_, signal); }

 private:
  pid_t process_;
};

void keep_reducing(TcpRing& ring, std::size_t count) {
  std::vector<float> values(count);
  for (;;) ring.all_reduce(std::span(values));
}

}  // namespace

TEST_SUITE("Keras: MultiWorkerMirroredStrategy: start-up") {
  TEST_CASE("workers start in any order") {
    for (const int last : {0, 1, 2}) {
      rethrow_first(run_places(3, [&](const Rendezvous& place) {
        if (place.rank == last) std::this_thread::sleep_for(300ms);
        auto ring = TcpRing::connect(place, patient_options());
        ring.barrier();
        ring.close();
      }));
    }
  }

  TEST_CASE("a port on which no process listens yet is tried again") {
    Listener free_port;
    Listener other;
    const std::vector<std::string> addresses{free_port.address(), other.address()};
    ::close(free_port.release());
    rethrow_first(run_threads(2, [&](int rank) {
      if (rank == 0) std::this_thread::sleep_for(300ms);
      Rendezvous place;
      place.rank = rank;
      place.addresses = addresses;
      if (rank == 1) place.listen_socket = other.release();
      auto ring = TcpRing::connect(place, patient_options());
      ring.barrier();
      ring.close();
    }));
  }

  TEST_CASE("names resolve, and a socket from the environment is used, again and again") {
    Listener listener;
    Listener other;
    const std::vector<std::string> addresses{"localhost:" + std::to_string(listener.port()),
                                             "localhost:" + std::to_string(other.port())};
    ::setenv("LOCKSTEP_LISTEN_FD", std::to_string(listener.descriptor()).c_str(), 1);
    for (int start = 0; start < 2; ++start)
      rethrow_first(run_threads(2, [&](int rank) {
        Rendezvous place;
        place.rank = rank;
        place.addresses = addresses;
        if (rank == 1) place.listen_socket = ::fcntl(other.descriptor(), F_DUPFD_CLOEXEC, 0);
        auto ring = TcpRing::connect(place, patient_options());
        ring.barrier();
        ring.close();
      }));
    ::unsetenv("LOCKSTEP_LISTEN_FD");
    CHECK(::fcntl(listener.descriptor(), F_GETFD) ==
          FD_CLOEXEC);  // not for the worker's own children
  }

  TEST_CASE("a descriptor from the environment that is something else is left alone") {
    Listener listener, wrong, peer;
    const std::vector<std::string> addresses{listener.address(), peer.address()};
    ::close(listener.release());
    ::setenv("LOCKSTEP_LISTEN_FD", std::to_string(wrong.descriptor()).c_str(), 1);
    rethrow_first(run_threads(2, [&](int rank) {
      Rendezvous place;
      place.rank = rank;
      place.addresses = addresses;
      if (rank == 1) place.listen_socket = peer.release();
      auto ring = TcpRing::connect(place, patient_options());
      ring.close();
    }));
    ::unsetenv("LOCKSTEP_LISTEN_FD");
    CHECK(::fcntl(wrong.descriptor(), F_GETFD) != -1);
  }

  TEST_CASE("a worker that is missing is named, with the reason, when the time is over") {
    const Rendezvous place = without_rank_zero();
    const auto begin = Clock::now();
    const auto thrown =
        run_threads(1, [&](int) { (void)TcpRing::connect(place, {.startup_timeout = 300ms}); });
    CHECK(seconds_since(begin) < 5);
    const CollectiveFailure failure = failure_of(thrown[0]);
    CHECK(failure.failed_rank == 0);
    CHECK(failure.address == place.addresses[0]);
    CHECK(failure.operation == "start-up");
    CHECK(code_of(thrown[0]) == ExitCode::lost_peer);
    CHECK(contains(failure.reason, "connection refused"));
    CHECK(contains(failure.reason, "within 300 ms (CommunicationOptions::startup_timeout)"));
  }

  TEST_CASE("while a worker is missing, all say every five seconds which one, and why") {
    const Rendezvous place = without_rank_zero();
    const lockstep_test::CapturedStderr captured;
    const auto thrown =
        run_threads(1, [&](int) { (void)TcpRing::connect(place, {.startup_timeout = 6s}); });
    CHECK(failure_of(thrown[0]).failed_rank == 0);
    const std::string said = captured.text();
    CAPTURE(said);
    CHECK(contains(said, "worker 1 has waited 5 s for worker 0 (" + place.addresses[0] + "): "));
    CHECK(contains(said, "connection refused"));
  }

  TEST_CASE("a name that does not resolve is named") {
    Listener listener;
    Rendezvous place;
    place.rank = 1;
    place.addresses = {"no-such-host.invalid:2222", listener.address()};
    place.listen_socket = listener.release();
    const auto thrown =
        run_threads(1, [&](int) { (void)TcpRing::connect(place, {.startup_timeout = 2s}); });
    const std::string message = message_of(thrown[0]);
    CHECK(
        (contains(message, "its name does not resolve") || contains(message, "no answer so far")));
  }

  TEST_CASE("a port that another process has is a configuration error") {
    Listener taken, other;
    Rendezvous place;
    place.addresses = {taken.address(), other.address()};
    const auto thrown =
        run_threads(1, [&](int) { (void)TcpRing::connect(place, {.startup_timeout = 300ms}); });
    CHECK(code_of(thrown[0]) == ExitCode::usage);
    CHECK(contains(message_of(thrown[0]), "cannot listen on port " + std::to_string(taken.port())));
  }

  TEST_CASE("workers that do not fit together both name the difference") {
    Listener a, b;
    const std::vector<std::string> both{a.address(), b.address()};
    std::vector<Rendezvous> places(2);
    for (const std::size_t rank : {0u, 1u}) {
      places[rank].rank = static_cast<int>(rank);
      places[rank].addresses = both;
    }
    std::string in_0, in_1;
    SUBCASE("world size") {
      places[1].addresses.push_back("127.0.0.1:9");
      in_0 = "worker 1 (" + both[1] + ") has world size 3, this worker has 2";
      in_1 = "worker 0 (" + both[0] + ") has another world size than this worker";
    }
    SUBCASE("properties") {
      places[0].properties = {{"scalar type", "float"}};
      places[1].properties = {{"scalar type", "double"}};
      in_0 = "worker 1 (" + both[1] + ") has scalar type double, this worker has float";
      in_1 = "worker 0 (" + both[0] + ") has scalar type float, this worker has double";
    }
    places[0].listen_socket = a.release();
    places[1].listen_socket = b.release();
    const auto begin = Clock::now();
    const auto thrown = run_threads(2, [&](int rank) {
      (void)TcpRing::connect(places[static_cast<std::size_t>(rank)], patient_options());
    });
    CHECK(seconds_since(begin) < 10);
    CHECK(contains(message_of(thrown[0]), in_0));
    CHECK(contains(message_of(thrown[1]), in_1));
    for (const auto& exception : thrown) CHECK(code_of(exception) == ExitCode::usage);
  }

  TEST_CASE("a worker of another cluster that comes to the wrong port ends, and disturbs none") {
    LocalCluster cluster(2);
    Listener elsewhere;
    Rendezvous lost;  // takes rank 0 for a worker of its own cluster
    lost.rank = 1;
    lost.addresses = {cluster.addresses[0], elsewhere.address()};
    lost.listen_socket = elsewhere.release();
    std::vector<Rendezvous> places = cluster.places();
    std::atomic<bool> refused = false;
    const auto thrown = run_threads(3, [&](int i) {
      if (i == 2) {
        try {
          (void)TcpRing::connect(lost, patient_options());
        } catch (...) {
          refused = true;
          throw;
        }
        return;
      }
      if (i == 1)  // comes when the lost one has been refused
        while (!refused) std::this_thread::sleep_for(5ms);
      auto ring = TcpRing::connect(places[static_cast<std::size_t>(i)], patient_options());
      ring.barrier();
      ring.close();
    });
    CHECK(!thrown[0]);
    CHECK(!thrown[1]);
    CHECK(contains(message_of(thrown[2]), "has another address of worker 1 than this worker"));
    CHECK(code_of(thrown[2]) == ExitCode::usage);
  }

  TEST_CASE("strangers on the port disturb no worker") {
    LocalCluster cluster(3);
    const std::uint16_t port = cluster.listeners[0].port();
    std::vector<Rendezvous> places = cluster.places();
    std::vector<Stranger> strangers;
    for (int i = 0; i < 10; ++i) strangers.emplace_back(port);  // half-open
    strangers.emplace_back(port).say("GET / HTTP/1.1\r\nHost: worker\r\n\r\n");
    strangers.emplace_back(port).say(std::string(100'000, '\0'));
    strangers.emplace_back(port).say("LOCK");  // slow
    std::string huge(detail::Hello::magic);
    huge += std::string("\1\0\0\0", 4) + std::string("\0\0\0\x40", 4) +
            std::string(24, '\0');  // payload of 1 GiB
    strangers.emplace_back(port).say(huge);
    std::string other_version(detail::Hello::magic);
    other_version += std::string("\11\0\0\0", 4) + std::string(28, '\0');
    strangers.emplace_back(port).say(other_version);
    { Stranger gone(port); }
    const auto begin = Clock::now();
    rethrow_first(run_threads(3, [&](int rank) {
      if (rank > 0) std::this_thread::sleep_for(200ms);
      auto ring = TcpRing::connect(places[static_cast<std::size_t>(rank)], patient_options());
      ring.barrier();
      ring.close();
    }));
    CHECK(seconds_since(begin) < 10);
    CHECK(strangers[13].hear().empty());  // dropped
    detail::Hello answer;
    const std::string bytes = strangers[14].hear();
    CHECK(detail::Hello::decode(bytes, answer));  // so that it can say what is different
    CHECK(answer.version == detail::Hello::this_version);
  }

  TEST_CASE("when one worker gives up, those that it is connected to do, for the same reason") {
    LocalCluster cluster(3);
    std::vector<Rendezvous> places{cluster.place(0), cluster.place(1)};
    const auto thrown = run_threads(2, [&](int rank) {
      CommunicationOptions options = patient_options();
      if (rank == 1) options.startup_timeout = 300ms;
      (void)TcpRing::connect(places[static_cast<std::size_t>(rank)], options);
    });
    CHECK(failure_of(thrown[0]).failed_rank == 2);  // which is not there
    CHECK(failure_of(thrown[1]).failed_rank == 2);
  }

  TEST_CASE("a process that is killed during start-up may be started again") {
    LocalCluster cluster(3);
    std::vector<Rendezvous> places = cluster.places();
    auto doomed = std::make_unique<RankProcess>(
        [&] { (void)TcpRing::connect(places[1], patient_options()); });
    const auto thrown = run_threads(3, [&](int rank) {
      if (rank == 1) {
        std::this_thread::sleep_for(200ms);
        doomed.reset();
      }
      if (rank == 2) std::this_thread::sleep_for(400ms);
      auto ring = TcpRing::connect(places[static_cast<std::size_t>(rank)], patient_options());
      std::vector<float> values{1};
      ring.all_reduce(std::span(values));
      CHECK(values[0] == 3);
      ring.close();
    });
    rethrow_first(thrown);
  }
}

TEST_SUITE("tcp, transfer") {
  template <class F>
  std::vector<std::exception_ptr> run_ring(int size, const CommunicationOptions& options, F f) {
    return run_places(size, [&](const Rendezvous& place) {
      auto ring = TcpRing::connect(place, options);
      f(ring);
    });
  }

  TEST_CASE("messages that no kernel buffer holds go both ways at once") {
    rethrow_first(run_ring(2, patient_options(), [](TcpRing& ring) {
      std::vector<std::byte> out(30'000'000, static_cast<std::byte>(ring.rank() + 1)),
          in(30'000'000);
      const int other = 1 - ring.rank();
      ring.transport().begin(Operation::none);
      SpanFlow flow(out, in);
      ring.transport().transfer(other, other, flow);
      CHECK(in == std::vector<std::byte>(in.size(), static_cast<std::byte>(other + 1)));
      ring.close();
    }));
  }

  TEST_CASE("ranks that call different operations notice before they sum anything") {
    const auto thrown = run_ring(2, patient_options(), [](TcpRing& ring) {
      std::vector<std::byte> bytes(1), all(2);
      if (ring.rank() == 0)
        ring.all_gather(std::span<const std::byte>(bytes), std::span(all));
      else
        ring.barrier();
    });
    for (const auto& exception : thrown) {
      CHECK(contains(message_of(exception), "is out of step"));
      CHECK(code_of(exception) == ExitCode::failure);  // it would happen again
    }
  }

  TEST_CASE_TEMPLATE(
      "ranks that are in different calls of the program say in which, and the same on all", Policy,
      TcpRing, SharedMemory) {
    const auto thrown = run_places(2, [&](const Rendezvous& place) {
      auto collective = Policy::connect(place, patient_options());
      ActivityBoard* const board = collective.board();
      std::vector<std::byte> bytes(1), all(2);
      if (place.rank == 0) {
        const ActivityScope scope(board, {.call = "fit", .epoch = 0, .step = 2});
        collective.all_gather(std::span<const std::byte>(bytes), std::span(all));
      } else {
        const ActivityScope scope(board, {.call = "load"});
        collective.barrier();
      }
    });
    for (const auto& exception : thrown) {
      CHECK(contains(message_of(exception),
                     "; worker 0 is in fit, epoch 1, step 3; worker 1 is in load"));
      CHECK(failure_of(exception).reason == failure_of(thrown[0]).reason);
      CHECK(failure_of(exception).failed_rank == failure_of(thrown[0]).failed_rank);
    }
  }

  TEST_CASE("ranks with different lengths notice") {
    const auto thrown = run_ring(3, patient_options(), [](TcpRing& ring) {
      std::vector<float> values(ring.rank() == 1 ? 11 : 10);
      ring.all_reduce(std::span(values));
    });
    for (const auto& exception : thrown)
      CHECK(contains(failure_of(exception).reason, "is out of step: worker "));
  }

  TEST_CASE("a report from another thread ends a wait") {
    const auto begin = Clock::now();
    std::atomic<bool> aborted = false;
    const auto thrown = run_ring(3, patient_options(), [&](TcpRing& ring) {
      std::thread other;
      if (ring.rank() == 2)  // waits; its own second thread has bad news
        other = std::thread([&] {
          std::this_thread::sleep_for(200ms);
          ring.abort("a callback failed", ExitCode::usage);
          aborted = true;
        });
      else
        while (!aborted) std::this_thread::sleep_for(10ms);
      try {
        for (int i = 0; i < 2; ++i)
          ring.barrier();  // (rank 2 has sent what the others need for the first one)
      } catch (...) {
        if (other.joinable()) other.join();
        throw;
      }
      if (other.joinable()) other.join();
    });
    CHECK(seconds_since(begin) < 10);
    for (const auto& exception : thrown) {
      const CollectiveFailure failure = failure_of(exception);
      CHECK(failure.failed_rank == 2);
      CHECK(failure.reason == "a callback failed");
      CHECK(failure.code == ExitCode::usage);
    }
  }

  TEST_CASE("what was sent before a failure is taken, although the word of it comes first") {
    bool is_taken = false;
    for (int attempt = 0; attempt < 5 && !is_taken; ++attempt) {  // it has 200 ms
      LocalCluster cluster(3);
      std::atomic<bool> waits = false, is_told = false;
      std::atomic<int> ended = 0;
      run_threads(3, [&](int rank) {
        Tcp tcp = Tcp::connect(cluster.place(rank), patient_options());
        std::array<std::byte, 8> bytes{};
        tcp.begin(Operation::broadcast);
        try {
          if (rank == 0) {
            waits = true;
            SpanFlow flow({}, bytes);
            tcp.transfer(1, 1, flow);
            is_taken = bytes.back() == std::byte{7};
          } else if (rank == 1) {
            while (!is_told) std::this_thread::sleep_for(1ms);
            bytes.fill(std::byte{7});
            SpanFlow flow(bytes, {});
            tcp.transfer(0, 0, flow);
          } else {
            while (!waits) std::this_thread::sleep_for(1ms);
            std::this_thread::sleep_for(50ms);
            tcp.abort("a callback failed", ExitCode::failure);
            std::this_thread::sleep_for(20ms);
            is_told = true;
          }
        } catch (const CollectiveError&) {  // too slow
        }
        for (++ended; ended < 3;) std::this_thread::sleep_for(1ms);
      });
    }
    CHECK(is_taken);
  }

  TEST_CASE("an event that came before a failure has come") {
    struct Event final : ExternalEvent {
      explicit Event(std::atomic<bool>& told) : is_told(told) {}
      bool has_come() override {
        if (std::exchange(asked, true)) return true;
        is_told = true;  // the other rank fails, just when this one has looked in vain
        std::this_thread::sleep_for(300ms);
        return false;
      }
      void sleep(std::chrono::milliseconds) override {}
      std::atomic<bool>& is_told;
      bool asked = false;
    };
    std::atomic<bool> is_told = false, has_ended = false;
    const auto thrown = run_ring(2, patient_options(), [&](TcpRing& ring) {
      Tcp& tcp = ring.transport();
      if (ring.rank() == 0) {
        struct End {
          std::atomic<bool>& flag;
          ~End() { flag = true; }
        } const end{has_ended};
        Event event(is_told);
        tcp.await(1, event);
      } else {
        while (!is_told) std::this_thread::sleep_for(1ms);
        tcp.abort("a callback failed", ExitCode::failure);
        while (!has_ended) std::this_thread::sleep_for(1ms);
      }
    });
    CHECK_FALSE(thrown[0]);
  }

  TEST_CASE("a rank that ends without a word is lost to all others") {
    const auto begin = Clock::now();
    const auto thrown = run_ring(4, patient_options(), [](TcpRing& ring) {
      ring.barrier();
      if (ring.rank() == 2) return;
      ring.barrier();
    });
    CHECK(seconds_since(begin) < 10);
    for (const std::size_t rank : {0u, 1u, 3u}) {
      const CollectiveFailure failure = failure_of(thrown[rank]);
      CHECK(failure.failed_rank == 2);
      CHECK(failure.operation == "barrier");
      CHECK(contains(failure.reason, "closed the connection"));
      CHECK(code_of(thrown[rank]) == ExitCode::lost_peer);
    }
  }

  TEST_CASE("after a failure every call throws the same") {
    const auto thrown = run_ring(2, patient_options(), [](TcpRing& ring) {
      if (ring.rank() == 1) return ring.abort("no more memory", ExitCode::failure);
      std::string first, second;
      try {
        ring.barrier();
      } catch (const CollectiveError& error) {
        first = error.failure().reason;
      }
      try {
        std::vector<float> values(3);
        ring.all_reduce(std::span(values));
      } catch (const CollectiveError& error) {
        second = error.failure().reason;
        CHECK(error.failure().operation == "all_reduce");
        CHECK(error.exit_code() == ExitCode::failure);
      }
      CHECK(first == "no more memory");
      CHECK(second == first);
    });
    rethrow_first(thrown);
  }
}

TEST_SUITE("tcp, ranks that are slow") {
  TEST_CASE_TEMPLATE(
      "a rank that is busy for longer than the timeout is not lost, in whatever all others wait",
      Policy, TcpRing, SharedMemory) {
    rethrow_first(run_places(3, [&](const Rendezvous& place) {
      auto collective = Policy::connect(place, {.timeout = 500ms, .startup_timeout = 60s});
      std::vector<float> values(1'000'000, 1.0f);
      for (int round = 0; round < 2; ++round) {
        if (place.rank == 1) std::this_thread::sleep_for(1500ms);  // in a callback
        round == 0 ? collective.barrier() : collective.all_reduce(std::span(values));
      }
      CHECK(values[0] == 3);
      collective.close();
    }));
  }

  TEST_CASE_TEMPLATE(
      "one that is busy for longer than the time for progress is named by all, with what it does",
      Policy, TcpRing, SharedMemory) {
    std::atomic<int> failed = 0;
    const auto thrown = run_places(3, [&](const Rendezvous& place) {
      auto collective = Policy::connect(
          place, {.timeout = 500ms, .progress_timeout = 1s, .startup_timeout = 60s});
      collective.barrier();
      if (place.rank == 1) {
        const ActivityScope scope(collective.board(),
                                  {.call = "fit", .part = "on_epoch_end of Endless"});
        for (int i = 0; i < 3000 && failed < 2; ++i) std::this_thread::sleep_for(10ms);
        return collective.barrier();
      }
      try {
        collective.barrier();
      } catch (...) {
        ++failed;
        throw;
      }
    });
    for (const auto& exception : thrown) {  // also the busy one, when it comes back
      const CollectiveFailure failure = failure_of(exception);
      CHECK(failure.failed_rank == 1);
      CHECK(failure.reason ==
            "kept others waiting for more than 1000 ms (CommunicationOptions::progress_timeout), "
            "although it is alive: "
            "fit, on_epoch_end of Endless");
      CHECK(code_of(exception) == ExitCode::lost_peer);
    }
  }

  TEST_CASE(
      "an exception that one rank ends with ends the waits of others, also when it comes from no "
      "operation") {
    const auto thrown = run_places(2, [&](const Rendezvous& place) {
      auto ring = TcpRing::connect(place, patient_options());
      ring.barrier();
      if (place.rank == 1) ring.abort("no more memory", ExitCode::failure);
      for (int i = 0; i < 3000; ++i) {  // busy
        ring.transport().check();
        std::this_thread::sleep_for(10ms);
      }
    });
    for (const auto& exception : thrown) CHECK(failure_of(exception).reason == "no more memory");
  }
}

TEST_SUITE("Keras: MultiWorkerMirroredStrategy: health") {
  // Ranks 0 to n - 2 are threads here, the last one is a process.
  template <class Before>
  std::vector<std::exception_ptr> with_victim(int size, const CommunicationOptions& options,
                                              int signal, std::size_t count, Before before) {
    LocalCluster cluster(size);
    std::vector<Rendezvous> places = cluster.places();
    RankProcess victim([&] {
      auto ring = TcpRing::connect(places[static_cast<std::size_t>(size - 1)], patient_options());
      before(ring);
      keep_reducing(ring, count);
    });
    ::close(places[static_cast<std::size_t>(size - 1)].listen_socket);
    std::atomic<int> working = 0;
    return run_threads(size, [&](int rank) {
      if (rank == size - 1) {
        while (working < size - 1) std::this_thread::sleep_for(10ms);
        std::this_thread::sleep_for(50ms);
        victim.send(signal);
        return;
      }
      struct Leaving {
        std::atomic<int>& working;
        const int all;
        ~Leaving() { working = all; }  // whatever happens, the signal is sent
      } const leaving{working, size - 1};
      auto ring = TcpRing::connect(places[static_cast<std::size_t>(rank)], options);
      ++working;
      keep_reducing(ring, count);
    });
  }

  TEST_CASE("a process that is killed in the middle is named by all, at once") {
    const auto begin = Clock::now();
    const auto thrown = with_victim(4, patient_options(), SIGKILL, 300'000, [](TcpRing&) {});
    CHECK(seconds_since(begin) < 20);
    for (const std::size_t rank : {0u, 1u, 2u}) {
      const CollectiveFailure failure = failure_of(thrown[rank]);
      CHECK(failure.failed_rank == 3);
      CHECK(failure.operation == "all_reduce");
      CHECK(code_of(thrown[rank]) == ExitCode::lost_peer);
    }
  }

  TEST_CASE(
      "a process that hangs is named by all when the time is over, and not the ranks that wait for "
      "it") {
    const auto begin = Clock::now();
    const auto thrown =
        with_victim(4, {.timeout = 3s, .startup_timeout = 60s}, SIGSTOP, 30'000, [](TcpRing&) {});
    CHECK(seconds_since(begin) < 30);
    for (const std::size_t rank : {0u, 1u, 2u}) {
      CAPTURE(message_of(thrown[rank]));
      const CollectiveFailure failure = failure_of(thrown[rank]);
      CHECK(failure.failed_rank == 3);
      CHECK(contains(failure.reason, "was silent for"));
    }
  }
}

TEST_SUITE("tcp, the end") {
  TEST_CASE("rank 0 leaves last") {
    std::atomic<int> closing = 0;
    int closing_when_chief_left = 0;
    rethrow_first(run_places(3, [&](const Rendezvous& place) {
      auto ring = TcpRing::connect(place, patient_options());
      ring.barrier();
      if (place.rank != 0) {
        std::this_thread::sleep_for(place.rank * 200ms);
        ++closing;
      }
      ring.close();
      if (place.rank == 0) closing_when_chief_left = closing;
    }));
    CHECK(closing_when_chief_left == 2);
  }

  TEST_CASE("a rank that never ends is not waited for longer than the time for progress") {
    std::promise<void> done;
    auto is_done = done.get_future();
    const auto begin = Clock::now();
    rethrow_first(run_places(2, [&](const Rendezvous& place) {
      auto ring =
          TcpRing::connect(place, {.timeout = 2s, .progress_timeout = 3s, .startup_timeout = 60s});
      ring.barrier();
      if (place.rank == 1) return is_done.wait();
      ring.close();
      done.set_value();
    }));
    CHECK(seconds_since(begin) < 10);
  }

  TEST_CASE("a rank that is busy before its end is waited for while it answers") {
    for (const int busy : {0, 1}) {
      std::atomic<bool> was_busy = false;
      rethrow_first(run_places(2, [&](const Rendezvous& place) {
        auto ring = TcpRing::connect(place, {.timeout = 500ms, .startup_timeout = 60s});
        ring.barrier();
        if (place.rank == busy) std::this_thread::sleep_for(2s);  // saves
        if (place.rank == busy) was_busy = true;
        ring.close();
        CHECK(was_busy);
      }));
    }
  }

  TEST_CASE("a rank that still needs one that has come to its end is told so") {
    const auto thrown = run_places(2, [&](const Rendezvous& place) {
      auto ring = TcpRing::connect(place, {.timeout = 2s, .startup_timeout = 60s});
      ring.barrier();
      if (place.rank == 0) ring.barrier();
      ring.close();
    });
    CHECK(contains(message_of(thrown[0]),
                   "came to its end while worker 0 in barrier still waits for it"));
    CHECK(code_of(thrown[0]) == ExitCode::failure);
    CHECK(!thrown[1]);
  }
}
