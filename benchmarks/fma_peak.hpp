// What the floating-point units of one core can do.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>

#include "lockstep/kernels/dispatch.hpp"
#include "lockstep/kernels/vector.hpp"

namespace benchmarks {

/// Independent chains of multiply-adds in registers, more than the units' latency asks for. Returns
/// the number of floating-point operations.
struct FmaPeak {
  static constexpr std::size_t steps = 20'000;
  template <class Isa>
  static constexpr std::size_t chains = Isa::registers == 32 ? 24 : 12;

  template <class Isa>
  LOCKSTEP_KERNEL double operator()() const {
    using V = lockstep::kernels::Vector<float, Isa>;
    float half = 0.5f;
    benchmark::DoNotOptimize(half);
    const V factor = V{} + half;
    const V summand = factor + half;
    V values[chains<Isa>];
    for (V& value : values) {
      // As far as the compiler knows, another one in each chain: else it computes one for all.
      float start = half;
      benchmark::DoNotOptimize(start);
      value = V{} + start;
    }
    for (std::size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 24
      for (std::size_t chain = 0; chain < chains<Isa>; ++chain) {
        V next = summand;
        lockstep::kernels::accumulate(next, values[chain], factor);
        values[chain] = next;
      }
    }
    V total{};
    for (const V& value : values) total += value;
    float sum = lockstep::kernels::sum_of_lanes<float>(total);
    benchmark::DoNotOptimize(sum);
    return 2.0 * static_cast<double>(steps * chains<Isa> * lockstep::kernels::lanes<float, Isa>);
  }
};

/// The counters of a benchmark whose iteration takes `flop` floating-point operations and at least
/// `bytes` of memory traffic, 0 where they are not counted. (Google Benchmark's CSV wants the same
/// counters everywhere.)
inline void count_flop(benchmark::State& state, double flop, double bytes = 0) {
  state.counters["bytes"] = bytes;
  state.counters["FLOP"] = flop;
  state.counters["FLOP/s"] =
      benchmark::Counter(flop, benchmark::Counter::kIsIterationInvariantRate);
}

/// Registers "peak": the counter FLOP/s is the peak of one core under the instruction set in force.
inline void register_peak() {
  benchmark::RegisterBenchmark("peak",
                               [](benchmark::State& state) {
                                 double flop = 0;
                                 for (auto _ : state) flop = lockstep::kernels::dispatch(FmaPeak{});
                                 count_flop(state, flop);
                               })

      ->Unit(benchmark::kMillisecond);
}

}  // namespace benchmarks
