// CommunicationOptions::connections: several TCP connections for data between two ranks.
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "collectives/harness.hpp"
#include "lockstep/collectives/protocol/frame.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

using TcpRing = Ring<Tcp>;

CommunicationOptions with_connections(int connections) {
  CommunicationOptions options = patient_options();
  options.connections = connections;
  return options;
}

/// Calls f(ring) on each rank.
template <class F>
std::vector<std::exception_ptr> run_ring(int size, int connections, const std::string& secret,
                                         F f) {
  LocalCluster cluster(size);
  std::vector<Rendezvous> places;
  for (int rank = 0; rank < size; ++rank) {
    places.push_back(cluster.place(rank));
    places.back().secret = secret;
  }
  return run_threads(size, [&](int rank) {
    auto ring =
        TcpRing::connect(places[static_cast<std::size_t>(rank)], with_connections(connections));
    f(ring);
    ring.close();
  });
}

/// Established TCP connections of this process, each end counted, that go to or come from one of
/// the ports.
int established(const std::vector<std::uint16_t>& ports) {
  int count = 0;
  std::ifstream lines("/proc/self/net/tcp");
  for (std::string line, number, local, remote, state; std::getline(lines, line);) {
    std::istringstream(line) >> number >> local >> remote >> state;
    if (state != "01") continue;  // the heading, too
    for (const std::uint16_t port : ports)
      for (const std::string& end : {local, remote})
        count += std::stoi(end.substr(end.find(':') + 1), nullptr, 16) == port;
  }
  return count;
}

/// The one with the highest descriptor in this process. (Those for data come after those for
/// control.)
int newest_connection() {
  int newest = -1;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    sockaddr_in address{};
    socklen_t length = sizeof address;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0)
      newest = std::max(newest, descriptor);
  }
  return newest;
}

}  // namespace

TEST_SUITE("connections") {
  TEST_CASE("any number of them gives the same bits") {
    for (const int size : {2, 3, 4}) {
      const std::size_t count = 4 * block_elements + 4099;
      std::vector<std::vector<float>> inputs;
      for (int rank = 0; rank < size; ++rank) inputs.push_back(random_numbers<float>(rank, count));
      const auto expected = contract_sum(inputs);
      for (const int connections : {0, 1, 2, 3, 4}) {
        CAPTURE(size);
        CAPTURE(connections);
        std::vector<char> equal(static_cast<std::size_t>(size));
        rethrow_first(run_ring(size, connections, {}, [&](TcpRing& ring) {
          const auto rank = static_cast<std::size_t>(ring.rank());
          for (int step = 0; step < 3; ++step) {  // messages follow each other on all of them
            auto values = inputs[rank];
            std::vector<double> status(5, 1);
            ring.all_reduce(std::span(status), std::span(values));
            equal[rank] = values == expected && status == std::vector<double>(5, size);
            if (!equal[rank]) break;
          }
        }));
        CHECK(equal == std::vector<char>(static_cast<std::size_t>(size), 1));
      }
    }
  }

  TEST_CASE("messages of any length arrive, also those that end where a stripe does") {
    constexpr std::size_t stripe = detail::Stripes::stripe_bytes;
    constexpr int connections = 3;
    std::vector<std::size_t> lengths{1, 1000};
    for (const std::size_t stripes :
         {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{4}, std::size_t{100}})
      for (const std::size_t length :
           {stripes * stripe - 1, stripes * stripe, stripes * stripe + 1})
        lengths.push_back(length);
    std::vector<std::size_t> wrong[2];
    rethrow_first(run_ring(2, connections, {}, [&](TcpRing& ring) {
      const auto content = [](int rank, std::size_t i) {
        return static_cast<std::byte>(i / stripe * 7 + i + static_cast<std::size_t>(rank));
      };
      const int other = 1 - ring.rank();
      ring.transport().begin(Operation::none);
      for (const std::size_t length : lengths) {
        std::vector<std::byte> out(length), in(length);
        for (std::size_t i = 0; i < length; ++i) out[i] = content(ring.rank(), i);
        SpanFlow flow(out, in);
        ring.transport().transfer(other, other, flow);
        for (std::size_t i = 0; i < length; ++i)
          if (in[i] != content(other, i)) {
            wrong[ring.rank()].push_back(length);
            break;
          }
      }
    }));
    CHECK(wrong[0].empty());
    CHECK(wrong[1].empty());
  }

  TEST_CASE("there are as many as were asked for, and one for control") {
    for (const int connections : {0, 1, 4}) {
      LocalCluster cluster(3);
      std::vector<std::uint16_t> ports;
      for (const Listener& listener : cluster.listeners) ports.push_back(listener.port());
      std::vector<Rendezvous> places = cluster.places();
      int seen = 0;
      rethrow_first(run_threads(3, [&](int rank) {
        auto ring =
            TcpRing::connect(places[static_cast<std::size_t>(rank)], with_connections(connections));
        ring.barrier();
        if (rank == 0) seen = established(ports);
        ring.barrier();
        ring.close();
      }));
      CHECK(seen == 3 * 2 * (1 + std::max(connections, 1)));  // three pairs, both ends
    }
  }

  TEST_CASE("of many ranks, those at distances of a power of two have connections") {
    constexpr int size = 12;
    LocalCluster cluster(size);
    std::vector<std::uint16_t> ports;
    std::vector<Rendezvous> places;
    for (int rank = 0; rank < size; ++rank) {
      ports.push_back(cluster.listeners[static_cast<std::size_t>(rank)].port());
      places.push_back(cluster.place(rank));
    }
    constexpr std::size_t count = 3 * block_elements + 77;
    std::vector<std::vector<float>> inputs;
    for (int rank = 0; rank < size; ++rank) inputs.push_back(random_numbers<float>(rank, count));
    const auto expected = contract_sum(inputs);
    // Both ends of 12 * 6 / 2 pairs, each with one for control and two for data.
    constexpr int expected_count = 2 * 36 * (1 + 2);
    int seen = 0;
    std::string problem;
    std::vector<char> equal(size);
    rethrow_first(run_threads(size, [&](int rank) {
      auto ring = TcpRing::connect(places[static_cast<std::size_t>(rank)], with_connections(2));
      ring.barrier();
      if (rank == 0) {
        // Those with rank 0 that only the start-up needs are closed soon after it.
        for (int i = 0; i < 500 && seen != expected_count; ++i) {
          if (i > 0) std::this_thread::sleep_for(10ms);
          seen = established(ports);
        }
        std::byte byte{};
        SpanFlow flow({&byte, 1}, {});
        try {
          ring.transport().transfer(6, 1, flow);
        } catch (const Error& error) {
          problem = error.what();
        }
      }
      auto values = inputs[static_cast<std::size_t>(rank)];
      ring.all_reduce(std::span(values));
      std::vector<float> few(1, 1);
      ring.all_reduce(std::span(few));
      equal[static_cast<std::size_t>(rank)] = values == expected && few[0] == size;
      ring.close();
    }));
    CHECK(equal == std::vector<char>(size, 1));
    CHECK(seen == expected_count);
    CHECK(problem.find("no connection for data between rank 0 and rank 6") != problem.npos);
  }

#if defined(LOCKSTEP_HAS_OPENSSL) && LOCKSTEP_HAS_OPENSSL
  TEST_CASE("each of them is proved to come from a process that knows the secret") {
    rethrow_first(run_ring(3, 4, "correct horse battery staple", [](TcpRing& ring) {
      std::vector<float> values(1'000'000, 1);
      ring.all_reduce(std::span(values));
      CHECK(values.back() == 3);
    }));
  }
#endif

  TEST_CASE("ranks with different numbers are refused by name, on all sides") {
    for (const auto& numbers : {std::pair{1, 2}, std::pair{4, 0}}) {
      const auto thrown = run_places(2, [&](const Rendezvous& place) {
        (void)TcpRing::connect(place,
                               with_connections(place.rank == 0 ? numbers.first : numbers.second));
      });
      for (const auto& exception : thrown) {
        CHECK_THROWS_AS(std::rethrow_exception(exception), ConfigurationError);
        CHECK(message_of(exception).find("has CommunicationOptions::connections ") !=
              std::string::npos);
      }
    }
    rethrow_first(run_places(
        2, [&](const Rendezvous& place) {  // what the library chooses is a number like any other
          TcpRing::connect(place, with_connections(place.rank)).close();
        }));
  }

  TEST_CASE("a transport on its own, too, is refused by name when the peer has another number") {
    for (const auto& [first, second] : {std::pair{1, 2}, std::pair{2, 1}}) {
      LocalCluster cluster(2);
      std::vector<Rendezvous> places = cluster.places();
      const std::array numbers{first, second};
      const auto thrown = run_threads(2, [&](int rank) {
        const auto i = static_cast<std::size_t>(rank);
        (void)Tcp::connect(places[i], with_connections(numbers[i]));
      });
      for (const auto& exception : thrown)
        CHECK_THROWS_AS(std::rethrow_exception(exception), ConfigurationError);
      const auto expected = [](int theirs, int mine) {
        return concat(
            {"has CommunicationOptions::connections ", theirs, ", this worker has ", mine});
      };
      CHECK(message_of(thrown[0]).find(expected(second, first)) != std::string::npos);
      CHECK(message_of(thrown[1]).find(expected(first, second)) != std::string::npos);
    }
  }

  TEST_CASE(
      "when one of them breaks, that is noticed at once, also while another one has its turn") {
    bool reset = false;
    std::string reason;
    SUBCASE("closed") { reason = " broke: it was closed; both processes live"; }
    SUBCASE("reset") {
      reset = true;
      reason = " broke: Connection reset by peer; both processes live";
    }
    std::atomic<bool> noticed = false;
    bool in_time = false;
    const auto thrown = run_places(2, [&](const Rendezvous& place) {
      auto ring = TcpRing::connect(place, with_connections(4));
      ring.barrier();
      if (place.rank == 1) {
        std::this_thread::sleep_for(100ms);  // rank 0 waits on the first connection for data
        const sockaddr none{AF_UNSPEC, {}};
        if (reset)  // (a thread sanitizer takes ::connect for the making of a descriptor)
          ::syscall(SYS_connect, newest_connection(), &none, sizeof none);
        else
          ::shutdown(newest_connection(), SHUT_RDWR);
        for (int i = 0; i < 1000 && !noticed; ++i) std::this_thread::sleep_for(10ms);
        in_time = noticed;
      }
      try {
        ring.barrier();
        ring.barrier();  // what rank 0 has sent for the first one is there
      } catch (...) {
        noticed = true;
        throw;
      }
    });
    CHECK(in_time);
    for (const auto& exception : thrown) {
      CHECK(failure_of(exception).failed_rank == -1);
      CHECK(failure_of(exception).reason.find(reason) != std::string::npos);
    }
  }
}
