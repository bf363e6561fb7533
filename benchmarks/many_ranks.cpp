// What many processes on this machine cost: each collective at each number of ranks.
//
// benchmark_many_ranks [--policy NAME]... [--ranks N]... prints a line of a Markdown table for each
// (default: shared_memory and tcp; 16, 64 and 256 ranks)
//
// Columns: start-up, from the first fork to the last rank that is connected; barrier and
// all-reduces, as rank 0 times them (median); memory that a rank has beyond the program itself,
// most of all ranks (PSS of anonymous and shared pages, after the all-reduces, less that before the
// start-up; the kernel's socket buffers are not in it); connections of a rank, least to most, rank
// 0's; and from the SIGKILL of one to the moment when the last of the others knows which.

#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"

namespace {

namespace ls = lockstep;
using Clock = std::chrono::steady_clock;

constexpr std::size_t small_bytes = 64, large_bytes = std::size_t{256} << 10;

[[nodiscard]] double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What a rank tells the parent, in memory that both have.
struct Report {
  std::atomic<bool> is_ready;  ///< to see another one killed
  double connected;            ///< seconds after the begin
  double memory;               ///< bytes
  int connections;
  double barrier, small, large;  ///< seconds; rank 0's
  std::atomic<double> knows;     ///< seconds after the begin
  std::atomic<int> named;
};

constexpr int most_ranks = 1024;

struct Shared {
  std::atomic<bool> is_over;
  Report ranks[most_ranks];
};

/// Of this process: anonymous and shared pages, each by the number of processes that have it.
[[nodiscard]] double own_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  double bytes = 0;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Pss_Anon:") || line.starts_with("Pss_Shmem:"))
      bytes += 1024 * std::strtod(line.c_str() + line.find(':') + 1, nullptr);
  return bytes;
}

[[nodiscard]] int own_connections() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const int descriptor = std::stoi(entry.path().filename());
    count += ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
  }
  return count;
}

/// Median seconds of one call.
template <class F>
[[nodiscard]] double time_calls(F call) {
  std::vector<double> times(9);
  call();
  for (double& time : times) {
    const auto begin = Clock::now();
    call();
    time = seconds_since(begin);
  }
  std::nth_element(times.begin(), times.begin() + 4, times.end());
  return times[4];
}

/// The life of a rank. `victim` is killed.
template <ls::CollectivePolicy Policy>
void live(const ls::Rendezvous& rendezvous, Clock::time_point begin, int victim, Shared& shared) {
  Report& report = shared.ranks[rendezvous.rank];
  const double memory = own_memory();
  Policy collective = Policy::connect(rendezvous, {});
  report.connected = seconds_since(begin);
  std::vector<float> values(large_bytes / sizeof(float), 1.0f);
  const auto reduce = [&](std::size_t bytes) {
    collective.all_reduce(std::span(values).first(bytes / sizeof(float)));
  };
  reduce(small_bytes);
  if (values[0] != static_cast<float>(collective.size())) throw std::runtime_error("wrong sum");
  std::fill(values.begin(), values.end(), 0.0f);  // stay so
  report.barrier = time_calls([&] { collective.barrier(); });
  report.small = time_calls([&] { reduce(small_bytes); });
  report.large = time_calls([&] { reduce(large_bytes); });
  report.memory = own_memory() - memory - static_cast<double>(large_bytes);
  report.connections = own_connections();
  collective.barrier();
  report.is_ready = true;
  if (rendezvous.rank == victim) ::pause();
  try {
    collective.barrier();
  } catch (const ls::CollectiveError& error) {
    report.knows = seconds_since(begin);
    report.named = error.failed_rank();
  }
  // A rank that ends is no news for the others any more.
  while (!shared.is_over) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

/// Listens on a free port of the loopback interface.
[[nodiscard]] int listen_anywhere(std::string& address) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  if (descriptor < 0 || ::bind(descriptor, reinterpret_cast<sockaddr*>(&name), size) != 0 ||
      ::listen(descriptor, 4096) != 0 ||
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) != 0)
    throw std::runtime_error("cannot listen on the loopback interface");
  address = "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
  return descriptor;
}

using Life = void (*)(const ls::Rendezvous&, Clock::time_point, int, Shared&);

/// The process of a rank. Does not return.
[[noreturn]] void begin_rank(Life life, const ls::Rendezvous& rendezvous,
                             const std::vector<int>& ports, Clock::time_point begin, int victim,
                             Shared& shared) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int port : ports)
    if (port != rendezvous.listen_socket) ::close(port);
  // What the ranks log, each of them would.
  const int errors = ::dup(STDERR_FILENO);
  if (std::freopen("/dev/null", "w", stderr) == nullptr) ::_exit(1);
  try {
    life(rendezvous, begin, victim, shared);
  } catch (const std::exception& error) {
    ::dprintf(errors, "rank %d: %s\n", rendezvous.rank, error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

void measure(std::string_view name, Life life, int ranks, Shared& shared) {
  shared.is_over = false;
  for (Report& report : std::span(shared.ranks).first(static_cast<std::size_t>(ranks))) {
    report.is_ready = false;
    report.knows = 0;
    report.named = -2;
  }
  ls::Rendezvous rendezvous;
  rendezvous.ranks_on_host = ranks;
  rendezvous.addresses.resize(static_cast<std::size_t>(ranks));
  std::vector<int> ports;
  for (std::string& address : rendezvous.addresses) ports.push_back(listen_anywhere(address));

  const int victim = ranks / 2;
  const auto begin = Clock::now();
  std::vector<pid_t> processes;
  for (rendezvous.rank = 0; rendezvous.rank < ranks; ++rendezvous.rank) {
    rendezvous.listen_socket = ports[static_cast<std::size_t>(rendezvous.rank)];
    const pid_t process = ::fork();
    if (process == 0) begin_rank(life, rendezvous, ports, begin, victim, shared);
    if (process < 0) throw std::runtime_error("cannot fork");
    processes.push_back(process);
  }
  for (const int port : ports) ::close(port);

  const std::span reports(shared.ranks, static_cast<std::size_t>(ranks));
  const auto wait_for = [&](auto condition) {
    for (std::size_t r = 0; r < reports.size(); ++r)
      while (!condition(r)) {
        if (seconds_since(begin) > 500) throw std::runtime_error("takes too long");
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        int status = 0;
        for (std::size_t each = 0; each < processes.size(); ++each)
          if (static_cast<int>(each) != victim && ::waitpid(processes[each], &status, WNOHANG) != 0)
            throw std::runtime_error("rank " + std::to_string(each) + " has ended, with status " +
                                     std::to_string(status));
      }
  };
  wait_for([&](std::size_t r) { return reports[r].is_ready.load(); });
  // So that the others are in their wait.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double killed = seconds_since(begin);
  ::kill(processes[static_cast<std::size_t>(victim)], SIGKILL);
  wait_for(
      [&](std::size_t r) { return static_cast<int>(r) == victim || reports[r].knows.load() > 0; });
  shared.is_over = true;
  for (const pid_t process : processes) ::waitpid(process, nullptr, 0);

  double connected = 0, memory = 0, knows = 0;
  int least = reports[1].connections, most = 0, wrong = 0;
  for (std::size_t r = 0; r < reports.size(); ++r) {
    const Report& report = reports[r];
    connected = std::max(connected, report.connected);
    memory = std::max(memory, report.memory);
    knows = std::max(knows, report.knows.load());
    wrong += static_cast<int>(r) != victim && report.named != victim;
    if (r == 0) continue;
    least = std::min(least, report.connections);
    most = std::max(most, report.connections);
  }
  const Report& first = reports.front();
  std::printf(
      "| %.*s | %d | %.2f s | %.2f ms | %.2f ms | %.2f ms | %.2f MB | %d to %d, %d | %.2f s |\n",
      static_cast<int>(name.size()), name.data(), ranks, connected, 1e3 * first.barrier,
      1e3 * first.small, 1e3 * first.large, memory / 1e6, least, most, first.connections,
      knows - killed);
  std::fflush(stdout);
  if (wrong > 0) throw std::runtime_error("ranks have named another one than the one that is dead");
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string_view> policies;
  std::vector<int> ranks;
  std::string_view name;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    int number = 0;
    if (word.starts_with("--"))
      name = word;
    else if (name == "--policy" && (word == "shared_memory" || word == "tcp"))
      policies.push_back(word);
    else if (name == "--ranks" &&
             std::from_chars(word.data(), word.data() + word.size(), number).ec == std::errc() &&
             number >= 2 && number <= most_ranks)
      ranks.push_back(number);
    else
      throw std::invalid_argument(
          "usage: benchmark_many_ranks [--policy shared_memory|tcp...] [--ranks N...]");
  }
  if (policies.empty()) policies = {"shared_memory", "tcp"};
  if (ranks.empty()) ranks = {16, 64, 256};
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  Shared& shared = *new (memory) Shared;
  std::puts(
      "| collective | ranks | start-up | barrier | 64 B | 256 KiB | memory | connections | "
      "death is known |\n|---|---|---|---|---|---|---|---|---|");
  for (const std::string_view policy : policies)
    for (const int n : ranks)
      measure(policy, policy == "tcp" ? live<ls::Ring<ls::Tcp>> : live<ls::SharedMemory>, n,
              shared);
} catch (const std::exception& error) {
  std::fprintf(stderr, "benchmark_many_ranks: %s\n", error.what());
  return 1;
}
