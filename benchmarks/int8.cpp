// Products of GPT-2's dense layers (124M) and of its head with kernels of float and of int8, for one
// row and for 64, on one thread. The kernels of each kind take 256 MiB in all (the head's table 147),
// so that one row reads them from memory. Prints a Markdown table of microseconds.
//
// benchmark_int8 FOLDER: of GPT-2 with random weights, which it leaves there with its ONNX files
// (2 GB in all), what Generator takes in memory, for a token and for a prompt.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "deep_models.hpp"
#include "kernel_timing.hpp"
#include "lockstep/extra/onnx/export_onnx.hpp"
#include "lockstep/kernels/decoding.hpp"
#include "lockstep/kernels/dense.hpp"
#include "lockstep/kernels/few_samples.hpp"
#include "lockstep/kernels/instruction_set.hpp"
#include "lockstep/kernels/int8.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/saving/generator.hpp"
#include "lockstep/saving/int8_weights.hpp"
#include "lockstep/saving/model_files.hpp"

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

/// Resident memory in MB, without what is free.
double resident() {
  ::malloc_trim(0);
  std::ifstream pages("/proc/self/statm");
  double all = 0, held = 0;
  pages >> all >> held;
  return held * static_cast<double>(::sysconf(_SC_PAGESIZE)) * 1e-6;
}

struct Written {
  double megabytes = 0, token = 0, prompt = 0;  ///< milliseconds of processor time, medians
};

template <class Policy>
Written write(const std::string& weights) {
  using Net = benchmarks::Gpt2Long<benchmarks::Kept>::Net;
  const double before = resident();
  const auto generator = std::make_unique<lockstep::Generator<Net, Policy>>(weights);
  Written result{.megabytes = resident() - before};
  auto text = generator->text();
  const auto median_of = [&](std::size_t calls, const auto& f) {
    std::vector<double> times;
    for (std::size_t call = 0; call < calls; ++call) {
      const std::clock_t begin = std::clock();
      f(static_cast<std::uint32_t>(call));
      times.push_back(1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    std::ranges::sort(times);
    return times[calls / 2];
  };
  result.token = median_of(33, [&](std::uint32_t call) {
    const std::uint32_t id = call * 997;
    text.append({&id, 1});
  });
  std::vector<std::uint32_t> prompt(512);
  for (std::uint32_t i = 0; i < 512; ++i) prompt[i] = i * 91 % 50'257;
  result.prompt = median_of(3, [&](std::uint32_t) {
    text.clear();
    text.append(prompt);
  });
  return result;
}

void compare_generators(const std::string& folder) {
  using Net = benchmarks::Gpt2Long<benchmarks::Kept>::Net;
  const std::string weights = folder + "/gpt2.safetensors";
  const auto onnx = [&](bool is_int8) { return folder + (is_int8 ? "/int8.onnx" : "/float.onnx"); };
  {
    auto model = lockstep::compile<Net>({.seed = 1});
    model.save_weights(weights);
    for (const bool is_int8 : {false, true})
      lockstep::export_onnx(model, onnx(is_int8), {.int8_weights = is_int8});
  }
  const Written in_float = write<float>(weights), in_int8 = write<lockstep::Int8Weights>(weights);
  std::printf("| | float | Int8Weights | ratio |\n|---|---|---|---|\n");
  const auto row = [](const char* what, double one, double other) {
    std::printf("| %s | %.1f | %.1f | %.2f |\n", what, one, other, other / one);
  };
  const auto size = [&](bool is_int8) {
    return static_cast<double>(std::filesystem::file_size(onnx(is_int8))) * 1e-6;
  };
  row("memory of the weights, MB", in_float.megabytes, in_int8.megabytes);
  row("one token after another, ms", in_float.token, in_int8.token);
  row("a prompt of 512 tokens, ms", in_float.prompt, in_int8.prompt);
  row("the ONNX file, MB", size(false), size(true));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    compare_generators(argv[1]);
    return 0;
  }
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
