// Winograd's algorithm beside the direct kernels, for convolutions of 3 x 3 with padding: where
// kernels::uses_winograd should choose it.
//
// benchmark_winograd [rounds (default: 7)]
//
// Prints a row for each image and number of channels (as many filters): the time of Winograd's
// kernel, divided by that of the direct one, of each pass and batch; "*" marks what a layer runs by
// Winograd's algorithm. Ratios of medians, of the processor time of one thread, both kernels in
// turn. "-": not measured, as it takes too long. LOCKSTEP_MAX_ISA sets the instruction set.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "kernel_timing.hpp"
#include "lockstep/kernels/convolution.hpp"
#include "lockstep/kernels/convolution_size.hpp"
#include "lockstep/kernels/convolution_weights.hpp"
#include "lockstep/kernels/instruction_set.hpp"
#include "lockstep/kernels/winograd.hpp"

namespace {

namespace kernels = lockstep::kernels;
using benchmarks::Array;
using benchmarks::now;

kernels::ConvolutionSize size_of(std::size_t image, std::size_t channels, std::size_t batch) {
  return {.height = image,
          .width = image,
          .channels = channels,
          .out_height = image,
          .out_width = image,
          .filters = channels,
          .kernel_height = 3,
          .kernel_width = 3,
          .pad_top = 1,
          .pad_left = 1,
          .batch = batch};
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// The time of `winograd`, divided by that of `direct`.
template <class Direct, class Winograd>
double ratio(int rounds, const Direct& direct, const Winograd& winograd) {
  const auto seconds = [](const auto& run, int times) {
    const double begin = now();
    for (int i = 0; i < times; ++i) run();
    return (now() - begin) / times;
  };
  winograd();
  direct();
  const int times = std::clamp(static_cast<int>(1.5e-3 / seconds(direct, 1)), 1, 1000);
  std::vector<double> of_direct, of_winograd;
  for (int round = 0; round < rounds; ++round) {
    of_direct.push_back(seconds(direct, times));
    of_winograd.push_back(seconds(winograd, times));
  }
  return median(of_winograd) / median(of_direct);
}

/// The ratios of forward, input gradient and weight gradient.
struct Ratios {
  double forward, input, weights;
};

Ratios measure(const kernels::ConvolutionSize& s, int rounds) {
  const std::size_t numbers = s.height * s.width * s.channels * s.batch;
  const Array x(numbers), dy(numbers), y(numbers), weights(s.weights()), gradient(s.weights()),
      bias(s.filters);
  const Array scratch(std::max({kernels::winograd_scratch(s), kernels::winograd_weights_scratch(s),
                                kernels::convolution_scratch(s)}));
  constexpr float minimum = -std::numeric_limits<float>::infinity();
  const kernels::Delta<float> delta{dy.data(), dy.data()};
  return {ratio(
              rounds,
              [&] {
                kernels::convolution_forward<float>(s, x.data(), weights.data(), bias.data(),
                                                    y.data());
              },
              [&] {
                kernels::winograd_forward<float>(s, x.data(), weights.data(), bias.data(), minimum,
                                                 y.data(), scratch.data());
              }),
          ratio(
              rounds,
              [&] {
                kernels::convolution_input_gradient<float>(s, weights.data(), dy.data(), y.data());
              },
              [&] {
                kernels::winograd_input_gradient<float>(s, weights.data(), dy.data(), y.data(),
                                                        scratch.data());
              }),
          ratio(
              rounds,
              [&] {
                kernels::convolution_weight_gradient<float>(s, x.data(), delta, gradient.data(),
                                                            bias.data(), scratch.data());
              },
              [&] {
                kernels::winograd_weight_gradient<float>(s, x.data(), delta, gradient.data(),
                                                         bias.data(), scratch.data());
              })};
}

std::string cell(double value, bool chosen) {
  char text[16];
  std::snprintf(text, sizeof text, " %.2f%s |", value, chosen ? "*" : "");
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const std::string level(lockstep::to_string(kernels::instruction_set()));
  std::printf("instruction set: %s; of each pass, batches of 16, 64 and 128\n\n", level.c_str());
  std::puts("| image | channels | forward | | | input gradient | | | weight gradient | | |");
  std::puts("|---|---|---|---|---|---|---|---|---|---|---|");
  for (const std::size_t image : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 16U, 32U})
    for (const std::size_t channels : {16U, 32U, 64U, 128U, 256U}) {
      std::string passes[3];
      for (const std::size_t batch : {16U, 64U, 128U}) {
        const kernels::ConvolutionSize s = size_of(image, channels, batch);
        const double flop = 2.0 * static_cast<double>(image * image * s.weights() * batch);
        if (flop > 5e9) {
          for (std::string& pass : passes) pass += " - |";
          continue;
        }
        const Ratios ratios = measure(s, rounds);
        const bool chosen = kernels::uses_winograd(s);
        passes[0] += cell(ratios.forward, chosen);
        passes[1] += cell(ratios.input, chosen);
        passes[2] += cell(ratios.weights, chosen);
      }
      std::printf("| %zu x %zu | %zu |%s%s%s\n", image, image, channels, passes[0].c_str(),
                  passes[1].c_str(), passes[2].c_str());
      std::fflush(stdout);
    }
}
