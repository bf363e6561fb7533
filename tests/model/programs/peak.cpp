// Trains the tutorial's CNN for a few steps, and prints what its budget says and by how much the
// peak of the process's memory has risen, in bytes:
//
//   peak alone
//   peak accumulated
//   peak sharded RANK ADDRESS ADDRESS     with another worker
//   peak gradients RANK ADDRESS ADDRESS   of a deeper model, with another worker
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <vector>

#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/layers.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/budget.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network.hpp"
#include "lockstep/optimizers.hpp"
#include "lockstep/strategies/multi_worker_mirrored.hpp"
#include "lockstep/strategies/one_device.hpp"

namespace ls = lockstep;

namespace {

using Cnn = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                           ls::Flatten, ls::Dense<128, ls::ReLU>, ls::Dense<10>>;

using Deep = ls::Sequential<ls::Input<784>, ls::Repeat<44, ls::Recompute<ls::Dense<784, ls::ReLU>>>,
                            ls::Dense<10>>;

/// A line of /proc/self/status, in bytes.
std::size_t status(const char* format) {
  std::size_t kilobytes = 0;
  if (std::FILE* const file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr)
      (void)std::sscanf(line, format, &kilobytes);
    std::fclose(file);
  }
  return kilobytes * 1024;
}

template <class Net, class Strategy, class O>
void train(Strategy& strategy, std::size_t batch, const O& optimizer, const ls::Budget& budget) {
  const auto data =
      ls::from_tensor_slices(ls::Tensor<float>(std::vector<float>(batch * 784), {batch, 784}),
                             ls::Tensor<float>(std::vector<float>(batch), {batch, 1}))
          .repeat()
          .batch(static_cast<std::int64_t>(batch));
  const std::size_t before = status("VmRSS: %zu");
  auto model = ls::compile<Net>(strategy, ls::CompileOptions{.seed = 1},
                                ls::SparseCategoricalCrossentropy{.from_logits = true}, optimizer);
  model.fit(data, {.epochs = 1, .verbose = 0, .steps_per_epoch = 4});
  std::printf("%zu %zu\n", budget.memory, status("VmHWM: %zu") - before);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  try {
    ls::OneDeviceStrategy alone;
    if (what == "alone") {
      train<Cnn>(alone, 512, ls::Adam{}, ls::budget<Cnn>(512, ls::Adam{}));
    } else if (what == "accumulated") {
      const ls::SGD optimizer{.use_ema = true, .gradient_accumulation_steps = 2};
      train<Cnn>(alone, 256, optimizer, ls::budget<Cnn>(256, optimizer));
    } else if ((what == "sharded" || what == "gradients") && argc == 5) {
      const bool gradients = what == "gradients";
      ls::Cluster cluster;
      cluster.task.index = std::atoi(argv[2]);
      cluster.spec.worker = {argv[3], argv[4]};
      ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>> strategy(
          cluster, {.communication_options = {.startup_timeout = std::chrono::seconds(60)},
                    .sharded_updates = true,
                    .sharded_gradients = gradients});
      if (gradients)
        train<Deep>(strategy, 64, ls::Adam{}, ls::budget<Deep>(64, ls::Adam{}, 2, true, true));
      else
        train<Cnn>(strategy, 1024, ls::Adam{}, ls::budget<Cnn>(1024, ls::Adam{}, 2, true));
    } else {
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
