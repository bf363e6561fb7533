// Products of GPT-2's dense layers (124M) and of its head with kernels of float and of int8, for one
// row and for 64, on one thread. The kernels of each kind take 256 MiB in all (the head's table 147),
// so that one row reads them from memory. Prints a Markdown table of microseconds.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "kernel_timing.hpp"
#include "lockstep/kernels/decoding.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/few_samples.hpp"
#include "lockstep/kernels/instruction_set.hpp"
#include "lockstep/kernels/int8.hpp"

namespace {

namespace kernels = lockstep::kernels;

/// Microseconds of a call, the least of 7 rounds.
template <class F>
double time_of(std::size_t calls, const F& f) {
  double best = 1e9;
  for (int round = 0; round < 7; ++round) {
    const double begin = benchmarks::now();
    for (std::size_t call = 0; call < calls; ++call) f(call);
    best = std::min(best, (benchmarks::now() - begin) / static_cast<double>(calls) * 1e6);
  }
  return best;
}

/// `is_head`: the weights are an embedding's table, as TiedHead multiplies by it.
void measure(std::size_t inputs, std::size_t units, bool is_head = false) {
  const std::size_t layers = (std::size_t{256} << 20) / (inputs * units * sizeof(float));
  const benchmarks::Array weights(layers * inputs * units), bias(units), x(64 * inputs),
      y(64 * units);
  const std::size_t bytes = kernels::Int8Kernel::bytes(inputs, units);
  const lockstep::Buffer rounded(layers * bytes);
  for (std::size_t layer = 0; layer < layers; ++layer)
    kernels::quantize_int8(inputs, units, weights.data() + layer * inputs * units,
                           {inputs, units, rounded.data() + layer * bytes}, is_head);
  const auto floats = [&](std::size_t call) {
    return weights.data() + call % layers * inputs * units;
  };
  const auto whole = [&](std::size_t call) {
    return reinterpret_cast<const float*>(rounded.data() + call % layers * bytes);
  };
  const auto one = [&](const float* kernel) {
    if (is_head && kernel == weights.data())
      return kernels::dispatch(
          kernels::TableProduct<float>{units, inputs, 1, kernel, x.data(), 1, y.data()});
    kernels::few_forward<float>({1, inputs, units, x.data(), kernel, bias.data(), y.data(), {}});
  };
  const auto batch = [&](const float* kernel) {
    if (is_head && kernel == weights.data())
      return kernels::dense_input_gradient<float>({units, inputs, 64}, kernel, x.data(), y.data());
    kernels::dense_forward<float>({inputs, units, 64}, x.data(), kernel, bias.data(), y.data());
  };
  const kernels::WithOtherWeights<float> scope(
      {rounded.data(), rounded.data() + rounded.size(), kernels::multiply_int8});
  const double one_float = time_of(layers, [&](std::size_t call) { one(floats(call)); });
  const double one_int8 = time_of(layers, [&](std::size_t call) { one(whole(call)); });
  const double batch_float = time_of(layers, [&](std::size_t call) { batch(floats(call)); });
  const double batch_int8 = time_of(layers, [&](std::size_t call) { batch(whole(call)); });
  std::printf("| %zu x %zu%s | %.0f | %.0f | %.2f | %.0f | %.0f | %.2f |\n", inputs, units,
              is_head ? ", head" : "", one_float, one_int8, one_int8 / one_float, batch_float,
              batch_int8, batch_int8 / batch_float);
}

}  // namespace

int main() {
  std::printf(
      "| kernel | 1 row: float | int8 | ratio | 64 rows: float | int8 | ratio |\n"
      "|---|---|---|---|---|---|---|\n");
  measure(768, 2304);
  measure(768, 768);
  measure(768, 3072);
  measure(3072, 768);
  measure(768, 50257, true);
  std::printf("\ninstruction set: %s\n",
              std::string(lockstep::to_string(kernels::instruction_set())).c_str());
}
