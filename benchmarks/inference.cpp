// What one prediction takes: Predictor, called by one thread and by several at once, a sample a
// call; and samples a second in batches of 64. Prints a Markdown table.
//
// benchmark_inference [calls of each thread (default: 20000)] [threads (default: 2)] [FOLDER]
//
// With FOLDER, it leaves the models there as ONNX files, for peers/inference.py.

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/extra/onnx/export_onnx.hpp"
#include "lockstep/kernels/instruction_set.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/saving/int8_weights.hpp"
#include "lockstep/saving/predictor.hpp"
#include "models.hpp"

namespace {

namespace ls = lockstep;
using Clock = std::chrono::steady_clock;

/// A table's columns to one probability.
struct Table {
  static constexpr std::string_view name = "table";
  using Net = ls::Sequential<ls::Input<30>, ls::Dense<32, ls::ReLU>, ls::Dense<1, ls::Sigmoid>>;
};

struct Times {
  double median, p99;  // microseconds of a call
};

Times times_of(std::vector<double> all) {
  std::ranges::sort(all);
  return {all[all.size() / 2], all[all.size() * 99 / 100]};
}

template <class P>
std::vector<double> time_calls(const P& net, std::size_t calls, const std::vector<float>& x) {
  std::vector<float> y(P::output_size);
  std::vector<double> times(calls);
  for (double& time : times) {
    const auto begin = Clock::now();
    net.predict_row(x, y);
    time = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  return times;
}

template <class Subject, class Policy = float>
void measure(std::size_t calls, int threads, const std::string& folder) {
  constexpr bool is_float = std::is_same_v<Policy, float>;
  auto model = ls::compile<typename Subject::Net>({.seed = 1});
  if (is_float && !folder.empty())
    ls::export_onnx(model, folder + "/" + std::string(Subject::name) + ".onnx");
  using P = ls::Predictor<typename Subject::Net, Policy>;
  const P net(model);
  const std::vector<float> x(P::input_size, 0.5F);
  (void)time_calls(net, calls / 10 + 1, x);
  const Times alone = times_of(time_calls(net, calls, x));

  std::vector<std::vector<double>> each(static_cast<std::size_t>(threads));
  std::barrier start(threads);
  {
    std::vector<std::jthread> workers;
    for (std::vector<double>& times : each)
      workers.emplace_back([&] {
        start.arrive_and_wait();
        times = time_calls(net, calls, x);
      });
  }
  std::vector<double> all;
  for (const std::vector<double>& times : each) all.insert(all.end(), times.begin(), times.end());
  const Times together = times_of(std::move(all));

  constexpr std::size_t batch = 64;
  const std::vector<float> many(batch * P::input_size, 0.5F);
  std::vector<float> y(batch * P::output_size);
  double best = 0;
  for (std::size_t call = 0; call < calls / batch + 3; ++call) {
    const auto begin = Clock::now();
    net.predict(many, y);
    best = std::max(best, batch / std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::printf("| %s | %.1f | %.1f | %.1f | %.1f | %.0f |\n",
              (std::string(Subject::name) + (is_float ? "" : " int8")).c_str(), alone.median,
              alone.p99, together.median, together.p99, best);
}

}  // namespace

int main(int argc, char** argv) {
  const auto calls = static_cast<std::size_t>(argc > 1 ? std::max(100, std::atoi(argv[1])) : 20000);
  const int threads = argc > 2 ? std::max(1, std::atoi(argv[2])) : 2;
  const std::string folder = argc > 3 ? argv[3] : "";
  std::printf(
      "| | median, us | p99 | %d threads: median | p99 | samples/s in batches of 64 |\n"
      "|---|---|---|---|---|---|\n",
      threads);
  measure<Table>(calls, threads, folder);
  measure<benchmarks::Mlp>(calls, threads, folder);
  measure<benchmarks::Cnn>(calls, threads, folder);
  measure<benchmarks::Mlp, ls::Int8Weights>(calls, threads, folder);
  measure<benchmarks::Cnn, ls::Int8Weights>(calls, threads, folder);
  std::printf("\ninstruction set: %s\n",
              std::string(ls::to_string(ls::kernels::instruction_set())).c_str());
}
