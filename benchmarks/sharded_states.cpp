// What a saved state of 1.5 GB costs (a model of 503 MB, with Adam's two slots, sharded_updates):
// one file, and shards; time, and memory above that of the model.
//
// benchmark_sharded_states FOLDER --workers 2

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/cluster/run.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "lockstep/saving/model_files.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"

namespace ls = lockstep;

namespace {

using Clock = std::chrono::steady_clock;
using Net = ls::Sequential<ls::Input<4096>, ls::Dense<8192>, ls::Dense<8192>, ls::Dense<3072>>;

/// A line of /proc/self/status, in MB.
double megabytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) * 1.024e-3;
  throw ls::Error("no " + field + " in /proc/self/status");
}

template <class F>
void measure(const char* what, int worker, F f) {
  std::vector<double> seconds;
  double most = 0;
  for (int round = 0; round < 3; ++round) {
    ::malloc_trim(0);
    const double before = megabytes("VmRSS");
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins here
    const auto begin = Clock::now();
    f();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    most = std::max(most, megabytes("VmHWM") - before);
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("worker %d: %-12s %.2f s (%.2f to %.2f), %.0f MB\n", worker, what, seconds[1],
              seconds.front(), seconds.back(), most);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int count, char** arguments) {
    if (count != 2) throw ls::ConfigurationError("benchmark_sharded_states FOLDER --workers N");
    const std::string folder = arguments[1];
    ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>> strategy({.sharded_updates = true});
    auto model = ls::compile<Net>(strategy, {.seed = 1}, ls::MeanSquaredError{}, ls::Adam{});
    const int worker = strategy.worker_index();
    const std::string file = folder + "/state", shards = folder + "/state.ckpt";
    measure("save, file", worker, [&] { model.save(file); });
    measure("save, shards", worker, [&] { model.save(shards, {.sharded = true}); });
    measure("load, file", worker, [&] { model.load(file); });
    measure("load, shards", worker, [&] { model.load(shards); });
    if (!strategy.is_chief()) return 0;
    std::filesystem::remove(file);
    std::filesystem::remove_all(shards);
    return 0;
  });
}
