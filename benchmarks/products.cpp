// The products of a dense layer alone, beside the measured peak of the floating-point units.
//
// benchmark_products [rounds (default: 5)] [bfloat16|float16]
//
// Prints a row for each layer: the speed of its three products, in percent of the peak, medians of
// the rounds, in each of which the peak is measured just before. Processor time of one thread;
// LOCKSTEP_MAX_ISA sets the instruction set. With "bfloat16" or "float16", operands are rounded to
// it, and the peak is still that of float.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fma_peak.hpp"
#include "kernel_timing.hpp"
#include "lockstep/kernels/bfloat16.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/instruction_set.hpp"

namespace {

namespace kernels = lockstep::kernels;
using benchmarks::Array;
using benchmarks::now;

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

struct Layer {
  const char* name;
  std::size_t inputs, units, columns;
};
constexpr Layer layers[] = {
    {"tutorial", 21632, 128, 64},
    {"MLP", 784, 512, 128},
    {"MLP", 512, 512, 128},
    {"char GPT", 128, 384, 768},
    {"char GPT", 128, 512, 768},
    {"char GPT", 512, 128, 768},
    {"GPT-2", 768, 2304, 256},
    {"GPT-2", 768, 768, 256},
    {"GPT-2", 768, 3072, 256},
    {"GPT-2", 3072, 768, 256},
    {"GPT-2, tied head", 50257, 768, 256},
};

double peak() {
  const double begin = now();
  double flop = 0;
  for (int i = 0; i < 5; ++i) flop += kernels::dispatch(benchmarks::FmaPeak{});
  return flop / (now() - begin);
}

double measure(const Layer& layer, int rounds) {
  const auto [name, inputs, units, columns] = layer;
  const Array x(inputs * columns), dx(inputs * columns), weights(inputs * units),
      gradient(inputs * units), y(units * columns), dy(units * columns),
      scratch(kernels::dense_scratch(units, columns));
  const kernels::DenseSize size{inputs, units, columns};
  kernels::dense_bias_gradient<float>(size, {dy.data(), dy.data()}, nullptr, scratch.data());
  const std::function<void()> products[] = {
      [&] { kernels::dense_forward<float>(size, x.data(), weights.data(), nullptr, y.data()); },
      [&] {
        kernels::dense_weight_gradient<float>(size, x.data(), scratch.data(), gradient.data());
      },
      [&] { kernels::dense_input_gradient<float>(size, weights.data(), dy.data(), dx.data()); }};
  const double flop = 2.0 * static_cast<double>(inputs * units * columns);
  const int times = std::max(1, static_cast<int>(2e9 / flop));
  std::vector<double> peaks;
  std::vector<double> speeds[3];
  for (int round = 0; round <= rounds; ++round) {
    const double fastest = peak();
    for (std::size_t i = 0; i < 3; ++i) {
      const double begin = now();
      for (int call = 0; call < times; ++call) products[i]();
      // (The first round fetches the memory.)
      if (round > 0) speeds[i].push_back(100 * times * flop / (now() - begin) / fastest);
    }
    peaks.push_back(fastest);
  }
  std::printf("| %s | %zu x %zu, %zu | %.0f | %.0f | %.0f |\n", name, inputs, units, columns,
              median(speeds[0]), median(speeds[1]), median(speeds[2]));
  std::fflush(stdout);
  return median(peaks);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  std::optional<kernels::BFloat16Products> bfloat16;
  std::optional<kernels::Float16Products> float16;
  if (argc > 2 && std::string_view(argv[2]) == "bfloat16") bfloat16.emplace();
  if (argc > 2 && std::string_view(argv[2]) == "float16") float16.emplace();
  const std::string level(lockstep::to_string(kernels::instruction_set()));
  std::puts("| layer | inputs x units, columns | forward | weight gradient | input gradient |");
  std::puts("|---|---|---|---|---|");
  std::vector<double> peaks;
  for (const Layer& layer : layers) peaks.push_back(measure(layer, rounds));
  std::printf("\nPercent of the peak, which is %.0f GFLOP/s; instruction set: %s\n",
              1e-9 * median(peaks), level.c_str());
}
