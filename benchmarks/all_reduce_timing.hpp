// How every program that times an all-reduce does it, lockstep's and the peers': the same command
// line, memory, operations and output, so that only the all-reduce differs.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace benchmarks {

/// The command line.
struct TimingOptions {
  std::string_view policy;  ///< the algorithm or the wire, by a name of the program's own
  int ranks = 2;
  std::vector<std::size_t> bytes;  ///< one measurement for each; multiples of 4
  int repetitions = 3;

  /// Reads `--policy NAME --ranks N --bytes B... --repetitions N`. Throws std::invalid_argument.
  static TimingOptions parse(int argc, char** argv) {
    TimingOptions options;
    std::string_view name;
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (word.starts_with("--"))
        name = word;
      else if (name == "--policy")
        options.policy = word;
      else if (name == "--ranks")
        options.ranks = number<int>(word);
      else if (name == "--bytes")
        options.bytes.push_back(number<std::size_t>(word));
      else if (name == "--repetitions")
        options.repetitions = number<int>(word);
      else
        throw std::invalid_argument("unknown option: " + std::string(name.empty() ? word : name));
    }
    for (const std::size_t bytes : options.bytes)
      if (bytes == 0 || bytes % sizeof(float) != 0)
        throw std::invalid_argument("--bytes needs multiples of 4");
    if (options.ranks < 1 || options.repetitions < 1)
      throw std::invalid_argument("needs at least 1 rank and repetition");
    return options;
  }

 private:
  template <class T>
  static T number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw std::invalid_argument("not a number: " + std::string(text));
    return value;
  }
};

/// Prints "name/ranks size median min max", of times in microseconds. A program prints a line for
/// each repetition.
inline void print_times(std::string_view name, int ranks, std::size_t size,
                        std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  std::printf("%.*s/%d %zu %.2f %.2f %.2f\n", static_cast<int>(name.size()), name.data(), ranks,
              size, (times[(n - 1) / 2] + times[n / 2]) / 2, times.front(), times.back());
  std::fflush(stdout);
}

/// Times `operation()` in steady state. All ranks call this at once and make the same number of
/// calls; `prints` on one of them. A time starts when that rank comes out of `barrier()`. What
/// takes microseconds is timed by the hundred.
template <class Barrier, class Operation>
void time_operation(const TimingOptions& options, bool prints, std::size_t bytes, Barrier barrier,
                    Operation operation) {
  using Clock = std::chrono::steady_clock;
  const bool small = bytes <= std::size_t{64} << 10;
  const int calls = small ? 100 : 1;
  const auto samples =
      small ? std::size_t{20} : std::clamp<std::size_t>((std::size_t{256} << 20) / bytes, 8, 30);
  const auto sample = [&] {
    barrier();
    const auto begin = Clock::now();
    for (int call = 0; call < calls; ++call) operation();
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls;
  };
  for (int warm_up = 0; warm_up < 3; ++warm_up) sample();
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    std::vector<double> times(samples);
    std::generate(times.begin(), times.end(), sample);
    if (prints) print_times(options.policy, options.ranks, bytes, std::move(times));
  }
}

/// The same for an all-reduce of `values`, in place, after a check that it sums. (Sums of zeros
/// stay finite.)
template <class Barrier, class AllReduce>
void time_all_reduce(const TimingOptions& options, int rank, std::span<float> values,
                     Barrier barrier, AllReduce all_reduce) {
  std::fill(values.begin(), values.end(), static_cast<float>(rank + 1));
  all_reduce();
  const auto sum = static_cast<float>(options.ranks * (options.ranks + 1) / 2);
  if (std::any_of(values.begin(), values.end(), [sum](float value) { return value != sum; }))
    throw std::runtime_error("the sum is wrong");
  std::fill(values.begin(), values.end(), 0.0f);
  time_operation(options, rank == 0, values.size_bytes(), barrier, all_reduce);
}

}  // namespace benchmarks
