// The kernels of one training step of the tutorial's CNN, on one thread: their time, the machine's measured FMA peak, and the same
// step on oneDNN where it is installed (Debian's libdnnl-dev), interleaved in one run.
//
//   benchmark_step_kernels [repetitions, default 60] [batch, default 64]
//
// Times are medians (minimum) of the thread's processor time, so that other processes disturb little.

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/core/buffer.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/kernels/tile.hpp"
#include "lockstep/layers/conv2d.hpp"
#include "lockstep/layers/dense.hpp"

#if defined(LOCKSTEP_BENCHMARK_ONEDNN)
#include "peers/onednn_step.hpp"
#endif

namespace {

namespace ls = lockstep;
namespace kernels = lockstep::kernels;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// One register tile over and over: what the floating-point units can do, with operands in the first-level cache.
struct PeakLoop {
  static constexpr std::size_t repetitions = 1000, inner = 128;
  const float* a;
  const float* b;

  template <class Isa>
  static constexpr std::size_t columns = Isa::registers == 32 ? 4 : 2;

  template <class Isa>
  LOCKSTEP_KERNEL double operator()() const {
    using V = kernels::Vector<float, Isa>;
    const std::size_t rows[6] = {0, 1, 2, 3, 4, 5};
    V total{};
    for (std::size_t i = 0; i < repetitions; ++i) {
      const float* from = a;
      asm volatile("" : "+r"(from));  // else the compiler computes one tile for all
      V sums[6][columns<Isa>] = {};
      const kernels::Segment<float> segment{from, b, inner};
      kernels::multiply_tile<Isa>(sums, &segment, 1, rows, 0, 8, 64, reinterpret_cast<const char*>(a), 0);
      for (auto& row : sums)
        for (V& sum : row) total += sum;
    }
    volatile float sink = kernels::sum_of_lanes<float>(total);
    (void)sink;
    return 2.0 * repetitions * inner * 6 * columns<Isa> * kernels::lanes<float, Isa>;
  }
};

struct Array {
  explicit Array(std::size_t size) : buffer(size * sizeof(float)), count(size) {}
  float* data() const { return reinterpret_cast<float*>(buffer.data()); }
  std::span<float> span() const { return {data(), count}; }
  void fill(float scale) const {
    std::uint32_t state = 1;
    for (float& value : span()) {
      state = state * 1664525u + 1013904223u;
      value = scale * (static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
    }
  }
  ls::Buffer buffer;
  std::size_t count;
};

/// A layer with what it needs to run; activations are shared with its neighbours.
template <class L, class In>
struct Rig {
  using Out = typename L::template Output<In>;
  const Array &x, &dx, &y, &dy;
  std::size_t batch, stride = ls::padded_batch(batch);
  ls::StepContext context{};
  Array scratch{L::template scratch<In>(stride)};
  std::vector<Array> weights, gradients;
  std::vector<std::span<float>> weight_spans, gradient_spans;

  Rig(const Array& x_, const Array& dx_, const Array& y_, const Array& dy_, std::size_t n)
      : x(x_), dx(dx_), y(y_), dy(dy_), batch(n) {
    for (const ls::Variable& variable : L::template variables<In>) {
      weights.emplace_back(variable.size());
      gradients.emplace_back(variable.size());
      weights.back().fill(0.05f);
    }
    for (const Array& array : weights) weight_spans.push_back(array.span());
    for (const Array& array : gradients) gradient_spans.push_back(array.span());
  }
  void forward() {
    L::template forward<In, float>({context,
                                    weight_spans,
                                    {},
                                    {x.data(), batch, In::size, stride},
                                    {y.data(), batch, Out::size, stride},
                                    scratch.span()});
  }
  ls::BackwardPass<float> pass() {
    return {context,
            weight_spans,
            {},
            {x.data(), batch, In::size, stride},
            {y.data(), batch, Out::size, stride},
            {dy.data(), batch, Out::size, stride},
            {dx.data(), batch, In::size, stride},
            gradient_spans,
            scratch.span()};
  }
  void backward_weights() { L::template backward_weights<In, float>(pass()); }
  void backward() { L::template backward<In, float>(pass()); }
  void update() {
    for (std::size_t i = 0; i < weights.size(); ++i)
      kernels::sweep(
          weights[i].count, [](auto& p, const auto& g) LOCKSTEP_KERNEL_LAMBDA { p -= 1e-6f * g; }, weights[i].data(),
          static_cast<const float*>(gradients[i].data()));
  }
};

struct Row {
  std::string name;
  double flop;
  std::function<void()> run;
  std::vector<double> seconds{};

  double median() {
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 60;
  const std::size_t batch = argc > 2 ? static_cast<std::size_t>(std::atoi(argv[2])) : 64;
  const std::size_t stride = ls::padded_batch(batch);
  using Convolution = ls::Conv2D<32, 3, ls::ReLU>;
  const Array x(784 * stride), y1(21632 * stride), dy1(21632 * stride), y2(128 * stride), dy2(128 * stride);
  const Array y3(10 * stride), dy3(10 * stride);
  x.fill(1);
  dy3.fill(1);
  Rig<Convolution, ls::Shape<28, 28, 1>> convolution(x, x, y1, dy1, batch);
  Rig<ls::Dense<128, ls::ReLU>, ls::Shape<21632>> hidden(y1, dy1, y2, dy2, batch);
  Rig<ls::Dense<10>, ls::Shape<128>> output(y2, dy2, y3, dy3, batch);

  const double samples = static_cast<double>(batch);
  const double conv_flop = 2.0 * 9 * 21632 * samples, hidden_flop = 2.0 * 21632 * 128 * samples;
  const double output_flop = 2.0 * 1280 * samples;
  const double step_flop = 2 * conv_flop + 3 * hidden_flop + 3 * output_flop;
  const Array a(1024), b(128 * 64);
  a.fill(1);
  b.fill(1);
  double peak_flop = 0;
  std::vector<Row> rows;
  rows.push_back({"peak", 0, [&] { peak_flop = kernels::dispatch(PeakLoop{a.data(), b.data()}); }});
  rows.push_back({"convolution forward", conv_flop, [&] { convolution.forward(); }});
  rows.push_back({"hidden forward", hidden_flop, [&] { hidden.forward(); }});
  rows.push_back({"output forward, backward", 3 * output_flop, [&] {
                    output.forward();
                    output.backward();
                  }});
  rows.push_back({"hidden weight gradient", hidden_flop, [&] { hidden.backward_weights(); }});
  rows.push_back(
      {"hidden input gradient", hidden_flop, [&] {
         kernels::dense_input_gradient<float>({21632, 128, stride}, hidden.weights[0].data(), dy2.data(), dy1.data());
       }});
  rows.push_back({"convolution weight gradient", conv_flop, [&] { convolution.backward_weights(); }});
  rows.push_back({"update", 0, [&] {
                    convolution.update();
                    hidden.update();
                    output.update();
                  }});
  const std::size_t own_rows = rows.size();
#if defined(LOCKSTEP_BENCHMARK_ONEDNN)
  OneDnnStep peer(static_cast<std::int64_t>(batch));
  rows.push_back({"oneDNN, whole step", step_flop, [&] { peer.run(); }});
#endif
  constexpr int warm_up = 3;
  for (int i = 0; i < warm_up + repetitions; ++i)
    for (Row& row : rows) {
      const double begin = processor_seconds();
      row.run();
      if (i >= warm_up) row.seconds.push_back(processor_seconds() - begin);
    }

  const double peak = peak_flop / rows[0].median();
  double step = 0;
  std::printf("instruction set %s, batch %zu, peak %.0f GFLOP/s\n", ls::to_string(kernels::instruction_set()).data(),
              batch, peak * 1e-9);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const double median = rows[i].median();
    if (i < own_rows) step += median;
    std::printf("%-28s %7.3f ms (%.3f)", rows[i].name.c_str(), median * 1e3, rows[i].seconds.front() * 1e3);
    if (rows[i].flop > 0)
      std::printf("  %4.0f GFLOP/s, %.2f of peak", rows[i].flop / median * 1e-9, rows[i].flop / median / peak);
    std::printf("\n");
  }
  const double limit = step_flop / peak;
  std::printf("whole step %.3f ms; FLOP / peak %.3f ms; ratio %.2f\n", step * 1e3, limit * 1e3, step / limit);
  if (rows.size() > own_rows) std::printf("step / oneDNN %.2f\n", step / rows.back().median());
}
