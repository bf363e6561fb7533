#include "lockstep/collectives/tcp/detail/control_thread.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "collectives/harness.hpp"

using namespace lockstep::detail;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

using Process = PeerEvidence::Process;

constexpr std::uint64_t incarnation = 0x1234'5678'9abc'def0;

Process outcome(std::uint16_t port, std::chrono::milliseconds least_time = 0ms) {
  const SocketName name = *ip_name("127.0.0.1", port);
  const auto begin = PortProbe::Clock::now();
  std::vector<PortProbe> probes;  // does not copy them
  for (int i = 0; i < 3; ++i) probes.emplace_back(name, incarnation, begin);
  PortProbe& probe = probes.front();
  while (!probe.outcome()) {
    pollfd watched = probe.watch();
    ::poll(&watched, 1, 10);
    probe.advance(PortProbe::Clock::now());
  }
  CHECK(PortProbe::Clock::now() - begin >= least_time);
  return *probe.outcome();
}

}  // namespace

TEST_SUITE("port probe") {
  TEST_CASE("a port that no process has: its process has ended") {
    Listener listener;
    const std::uint16_t port = listener.port();
    ::close(listener.release());
    CHECK(outcome(port) == Process::ended);
  }

  TEST_CASE("the process that is looked for says so, and lives; its successor does not") {
    for (const auto& [answer, expected] :
         {std::pair(std::optional(incarnation), Process::lives),
          std::pair(std::optional(incarnation + 1), Process::ended),
          std::pair(std::optional<std::uint64_t>(), Process::closes)}) {
      Listener listener;
      std::thread process([&, answer = answer] {
        for (int i = 0; i < 3; ++i) {
          const int connection = ::accept(listener.descriptor(), nullptr, nullptr);
          char byte = 0;
          // A peer that expects a greeting need not wait.
          CHECK(::recv(connection, &byte, 1, 0) == 0);
          std::array<std::byte, 8> bytes{};
          put_number<8>(bytes.data(), answer.value_or(0));
          if (answer) (void)::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
          ::close(connection);
        }
      });
      // (On a machine too busy for an answer in time, the outcome is unknown.)
      const Process result = outcome(listener.port());
      CHECK((result == expected || result == Process::unknown));
      process.join();
    }
  }

  TEST_CASE("a port that is held open for a process tells nothing, after a moment") {
    Listener listener;
    CHECK(outcome(listener.port(), PortProbe::patience) == Process::unknown);
  }
}
