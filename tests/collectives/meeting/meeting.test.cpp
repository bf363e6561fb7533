#include "lockstep/collectives/meeting/meeting.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/net/listener.hpp"
#include "support/call_port.hpp"
#include "support/captured_stderr.hpp"
#include "support/messages.hpp"

using namespace lockstep;
using namespace std::chrono_literals;
using lockstep_test::contains;

namespace {

const std::string secret = "a secret of the cluster's workers";

/// A port that was free a moment ago.
int free_port() {
  const auto socket = lockstep::detail::listen_for("127.0.0.1", "", 0);
  return lockstep::detail::port_of(lockstep::detail::own_name(socket.get()));
}

CommunicationOptions within(std::chrono::milliseconds time) { return {.startup_timeout = time}; }

std::vector<std::string> come(const Meeting& meeting, const CommunicationOptions& options,
                              const std::string& known = {}) {
  return meet(meeting, options, std::make_shared<KeptPort>(), known);
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// All ranks of a job, each on a thread; what rank 0 and the last one were told.
std::vector<std::vector<std::string>> all_meet(const std::string& address, int size,
                                               const std::string& known = {}) {
  std::vector<std::future<std::vector<std::string>>> ranks;
  for (int rank = size - 1; rank >= 0; --rank)  // rank 0 comes last
    ranks.push_back(std::async(std::launch::async, [=] {
      return come({.rank = rank, .size = size, .address = address, .job = "a"}, within(60s), known);
    }));
  std::vector<std::vector<std::string>> lists;
  for (auto& rank : ranks) lists.push_back(rank.get());
  return lists;
}

}  // namespace

TEST_SUITE("meeting") {
  TEST_CASE(
      "all ranks learn the same addresses, whichever comes first, with and without a secret") {
    for (const std::string& known : {std::string(), secret}) {
#if !defined(LOCKSTEP_HAS_OPENSSL) || !LOCKSTEP_HAS_OPENSSL
      if (!known.empty()) continue;
#endif
      const std::string address = "localhost:" + std::to_string(free_port());
      const auto lists = all_meet(address, 5, known);
      for (const auto& list : lists) {
        CHECK(list == lists.front());
        REQUIRE(list.size() == 5);
        for (const std::string& each : list) CHECK(each.starts_with("localhost:"));
      }
    }
  }

  TEST_CASE("ranks meet in a store of the program's, and connect with what it gives") {
    struct Store {
      std::mutex mutex{};
      std::condition_variable changed{};
      std::vector<std::string> all = std::vector<std::string>(3);
      int come = 0;
    } store;
    const auto options = CommunicationOptions{.startup_timeout = 60s, .bind_address = "127.0.0.1"};
    std::vector<std::future<std::vector<std::string>>> ranks;
    for (int rank = 0; rank < 3; ++rank)
      ranks.push_back(std::async(std::launch::async, [&store, rank, options] {
        const auto exchange = [&store, rank](const std::string& mine) {
          std::unique_lock lock(store.mutex);
          store.all[static_cast<std::size_t>(rank)] = mine;
          ++store.come;
          store.changed.notify_all();
          store.changed.wait(lock, [&] { return store.come == 3; });
          return store.all;
        };
        const auto port = std::make_shared<KeptPort>();
        auto all = meet({.rank = rank, .size = 3, .exchange = exchange}, options, port);
        const Rendezvous place{.rank = rank, .addresses = all, .port = port};
        auto ring = Ring<Tcp>::connect(place, options);
        std::array<double, 1> sum{1.0 + rank};
        ring.all_reduce(std::span<double>(sum));
        all.push_back(std::to_string(static_cast<int>(sum[0])));
        ring.close();
        return all;
      }));
    for (auto& rank : ranks) {
      std::vector<std::string> all = rank.get();
      CHECK(all.back() == "6");
      all.pop_back();
      CHECK(all == store.all);
      for (const std::string& each : all) CHECK(each.starts_with("127.0.0.1:"));
    }
  }

  TEST_CASE("a store that gives something else is named, and what it throws comes through") {
    const auto with = [](std::vector<std::string> all) {
      return message_of([&] {
        (void)come({.rank = 1, .size = 2, .exchange = [&](const std::string&) { return all; }},
                   within(1s));
      });
    };
    CHECK(with({"a:1"}) ==
          "Meeting::exchange must return \"host:port\" of each of the 2 ranks, and worker 1 got 1 "
          "texts");
    CHECK(contains(with({"a:1", "no port"}), "worker 1 got 2 texts"));
    CHECK(contains(with({"a:1", "b:2"}), " and got 'b:2' in its place: does the store hold"));
    const auto throws = [](const std::string&) -> std::vector<std::string> {
      throw Error("the store is away");
    };
    CHECK(message_of([&] { (void)come({.rank = 0, .size = 2, .exchange = throws}, within(1s)); }) ==
          "the store is away");
  }

  TEST_CASE("a port that another program or another job has is passed by") {
    const auto taken = lockstep::detail::listen_for("127.0.0.1", "", 0);
    const int port = lockstep::detail::port_of(lockstep::detail::own_name(taken.get()));
    const std::jthread other_program([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const lockstep::detail::Descriptor caller(::accept(taken.get(), nullptr, nullptr));
        std::this_thread::sleep_for(10ms);
      }
    });
    const std::string address = "127.0.0.1:" + std::to_string(std::min(port, 65'500));
    for (const std::string& known : {std::string(), secret}) {
#if !defined(LOCKSTEP_HAS_OPENSSL) || !LOCKSTEP_HAS_OPENSSL
      if (!known.empty()) continue;
#endif
      const auto other_job = [&](int rank) {
        return std::async(std::launch::async, [=] {
          return come({.rank = rank, .size = 2, .address = address, .job = "another"}, within(60s),
                      known);
        });
      };
      auto waits = other_job(0);
      const auto lists = all_meet(address, 2);
      CHECK(lists.front() == lists.back());
      auto comes = other_job(1);
      const auto other = comes.get();
      CHECK(waits.get() == other);
      CHECK(other != lists.front());
    }
  }

  TEST_CASE("the missing rank is named when the time is over") {
    const std::string address = "127.0.0.1:" + std::to_string(free_port());
    try {
      (void)come({.rank = 0, .size = 3, .address = address}, within(300ms));
      FAIL("no rank came");
    } catch (const CollectiveError& error) {
      CHECK(error.exit_code() == ExitCode::lost_peer);
      CHECK(error.failed_rank() == 1);
      CHECK(contains(error.what(), "missing: worker 1, 2"));
      CHECK(contains(error.what(), address));
    }
    try {
      (void)come({.rank = 2, .size = 3, .address = address}, within(300ms));
      FAIL("no rank came");
    } catch (const CollectiveError& error) {
      CHECK(error.failed_rank() == 0);
      CHECK(error.failure().address == address);
      CHECK(contains(error.what(), "did not tell worker 2"));
    }
    CHECK(contains(message_of([&] {
                     (void)come({.rank = 1, .size = 2, .address = "no-such-host.invalid:1"},
                                within(300ms));
                   }),
                   "does not resolve"));
  }

  TEST_CASE("processes that do not fit are turned away, with the reason on both sides") {
    const lockstep_test::CapturedStderr captured;
    const std::string address = "127.0.0.1:" + std::to_string(free_port());
    auto server = std::async(std::launch::async, [&] {
      return come({.rank = 0, .size = 3, .address = address}, within(60s));
    });
    CHECK(contains(
        message_of([&] { (void)come({.rank = 1, .size = 4, .address = address}, within(60s)); }),
        "expects 4 workers, and rank 0 expects 3: start all with the same number"));
    auto first = std::async(std::launch::async, [&] {
      return come({.rank = 1, .size = 3, .address = address}, within(60s));
    });
    // (Rank 1's machine might have died: the second one is told only when it has not.)
    const auto second = message_of([&] {
      std::this_thread::sleep_for(500ms);
      (void)come({.rank = 1, .size = 3, .address = address}, within(60s));
    });
    CHECK(contains(second, "claims to be rank 1, and so does the worker at 127.0.0.1:"));
    const auto last = come({.rank = 2, .size = 3, .address = address}, within(60s));
    CHECK(first.get() == last);
    CHECK(server.get() == last);
    CHECK(contains(captured.text(), "expects 4 workers"));
  }

  TEST_CASE("strangers, and bytes that are no message, do not stop a meeting") {
    const lockstep_test::CapturedStderr captured;
    const int port = free_port();
    const std::string address = "127.0.0.1:" + std::to_string(port);
    auto server = std::async(std::launch::async, [&] {
      return come({.rank = 0, .size = 2, .address = address}, within(60s));
    });
    const std::vector<std::string> noises = {
        "GET / HTTP/1.0\r\n\r\n", std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\0", 4),
        std::string("\5\0\0\0a\nb\nc", 9)};
    for (std::size_t i = 0; i < 40; ++i) {
      auto socket = lockstep_test::call_port(port);
      for (int tries = 0; tries < 200 && !socket.is_open(); ++tries) {
        std::this_thread::sleep_for(10ms);
        socket = lockstep_test::call_port(port);
      }
      const std::string& noise = noises[i % noises.size()];
      (void)!::send(socket.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
    }
    std::vector<decltype(lockstep_test::call_port(port))> silent(300);
    for (auto& socket : silent) socket = lockstep_test::call_port(port);
    const auto list = come({.rank = 1, .size = 2, .address = address}, within(60s));
    CHECK(server.get() == list);
  }

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
  TEST_CASE("a process with another secret, or none, learns no address") {
    const lockstep_test::CapturedStderr captured;
    const std::string address = "127.0.0.1:" + std::to_string(free_port());
    auto server = std::async(std::launch::async, [&] {
      return come({.rank = 0, .size = 2, .address = address}, within(60s), secret);
    });
    CHECK(contains(
        message_of([&] { (void)come({.rank = 1, .size = 2, .address = address}, within(3s)); }),
        "has a cluster secret (LOCKSTEP_CLUSTER_SECRET), this worker has none"));
    CHECK(contains(message_of([&] {
                     (void)come({.rank = 1, .size = 2, .address = address}, within(3s),
                                "another secret, long enough");
                   }),
                   "did not tell worker 1"));
    const auto list = come({.rank = 1, .size = 2, .address = address}, within(60s), secret);
    CHECK(server.get() == list);
    CHECK(contains(captured.text(), "this worker has one: give all the same"));
    const std::string other =
        "has another cluster secret (LOCKSTEP_CLUSTER_SECRET) than this worker";
    const std::string text = captured.text();
    CHECK(contains(text, other));  // once in five seconds, though it has called for one
    CHECK(text.find(other) == text.rfind(other));
  }

  TEST_CASE("a meeting inside TLS: all, or one side only") {
    const lockstep_test::CapturedStderr captured;
    const std::string address = "127.0.0.1:" + std::to_string(free_port());
    CommunicationOptions with_tls = within(60s);
    with_tls.tls = Tls::pre_shared_key;
    const auto meets = [&](int rank, const CommunicationOptions& options) {
      return come({.rank = rank, .size = 3, .address = address}, options, secret);
    };
    auto server = std::async(std::launch::async, [&] { return meets(0, with_tls); });
    auto other = std::async(std::launch::async, [&] { return meets(2, with_tls); });
    CHECK(contains(message_of([&] { (void)meets(1, within(3s)); }),
                   "speaks TLS only, and this worker does without; LOCKSTEP_TLS"));
    CHECK(contains(captured.text(), "speaks without TLS, and this worker only with it"));
    const auto list = meets(1, with_tls);
    CHECK(server.get() == list);
    CHECK(other.get() == list);

    auto plain = std::async(std::launch::async, [&] {
      return come({.rank = 0, .size = 2, .address = address}, within(60s), secret);
    });
    CommunicationOptions in_vain = within(3s);
    in_vain.tls = Tls::pre_shared_key;
    CHECK(contains(message_of([&] {
                     (void)come({.rank = 1, .size = 2, .address = address}, in_vain, secret);
                   }),
                   "speaks without TLS, and this worker only with it"));
    CHECK(contains(captured.text(), "speaks TLS only, and this worker does without"));
    (void)come({.rank = 1, .size = 2, .address = address}, within(60s), secret);
    CHECK(plain.get().size() == 2);
  }

#endif
}
