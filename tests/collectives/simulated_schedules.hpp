// Many schedules of a simulated network, by their seeds.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/fiber.hpp"
#include "support/simulated_network.hpp"

namespace lockstep_test {

inline std::vector<std::string> simulated_addresses(int world) {
  std::vector<std::string> addresses;
  addresses.reserve(static_cast<std::size_t>(world));
  for (int rank = 0; rank < world; ++rank)
    addresses.push_back("10.0.0." + std::to_string(rank + 1) + ":2222");
  return addresses;
}

/// From a quiet local network to a bad one.
inline SimulatedNetwork::Weather some_weather(std::uint64_t seed) {
  SimulatedNetwork::Weather weather;
  weather.most = std::chrono::microseconds(100 << seed % 8);  // 12.8 ms
  weather.loss = static_cast<int>(seed / 8 % 4) * 10;
  weather.packet = seed % 3 == 0 ? 24 : 1400;
  weather.window = seed % 5 == 0 ? 512 : 16384;
  return weather;
}

/// run(seed) returns what went wrong, or nothing: for the seeds that once found a fault, and for
/// the first `count` (fewer where a sanitizer looks on). The environment variable
/// LOCKSTEP_SIMULATED_SCHEDULES multiplies that.
template <class F>
void try_schedules(F run, std::uint64_t count, const std::vector<std::uint64_t>& known) {
  const char* const factor = std::getenv("LOCKSTEP_SIMULATED_SCHEDULES");
  if (factor != nullptr) count *= std::strtoull(factor, nullptr, 10);
#if defined(LOCKSTEP_TEST_ASAN)
  count = count / 5 + 1;
#elif defined(LOCKSTEP_TEST_TSAN)  // which has nothing to look for on one thread
  count = count / 30 + 1;
#endif
  int faults = 0;
  const auto attempt = [&](std::uint64_t seed) {
    const std::string problem = run(seed);
    CHECK_MESSAGE(problem.empty(), "seed ", seed, ": ", problem);
    faults += problem.empty() ? 0 : 1;
  };
  for (const std::uint64_t seed : known) attempt(seed);
  for (std::uint64_t seed = 1; seed <= count && faults < 10; ++seed) attempt(seed);
}

}  // namespace lockstep_test
