// One rank over TCP, as a process that tests start, stop, kill and disturb:
//
//   rank RANK STARTUP_MS TIMEOUT_MS join|reduce|auto ADDRESS...
//
// It prints "connected" when all ranks are there, and then sums once and leaves with the others
// (join, auto: with Auto instead of Ring<Tcp>) or sums without end (reduce).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/collectives/policies/auto.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/error.hpp"

namespace ls = lockstep;

namespace {

/// (What wait4 says may be the memory of the process that has started this one.)
long peak_kilobytes() {
  long kilobytes = -1;
  if (std::FILE* const file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr)
      (void)std::sscanf(line, "VmHWM: %ld", &kilobytes);
    std::fclose(file);
  }
  return kilobytes;
}

template <ls::CollectivePolicy Policy>
void work(const ls::Rendezvous& place, const ls::CommunicationOptions& options, bool for_ever) {
  const auto collective = ls::any_collective(Policy::connect(place, options));
  std::printf("connected\n");
  std::fflush(stdout);
  std::vector<float> values(100'000);
  do {
    std::fill(values.begin(), values.end(), 1.0F);
    collective->all_reduce(std::span(values));
    if (values.back() != static_cast<float>(collective->size())) throw ls::Error("wrong sum");
  } while (for_ever);
  collective->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  try {
    ls::Rendezvous place;
    place.rank = std::atoi(argv[1]);
    place.addresses.assign(argv + 5, argv + argc);
    ls::CommunicationOptions options;
    options.startup_timeout = std::chrono::milliseconds(std::atoi(argv[2]));
    options.timeout = std::chrono::milliseconds(std::atoi(argv[3]));
    const std::string_view mode = argv[4];
    if (mode == "auto")
      work<ls::Auto>(place, options, false);
    else
      work<ls::Ring<ls::Tcp>>(place, options, mode == "reduce");
    std::printf("peak memory: %ld kB\n", peak_kilobytes());
    return 0;
  } catch (const ls::Error& error) {
    std::printf("error: %s\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
}
