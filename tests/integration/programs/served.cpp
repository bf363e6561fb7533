// Trains a small model with parameter servers: served FOLDER EPOCHS MILLISECONDS FILE [SECONDS].
// After so many seconds (20) a process that is silent counts as lost. The folder is
// for backups of the servers; a worker sleeps that long in each step, and at the end of the fifth
// epoch and of all later ones it waits until the file is there. The subject of served.test.cpp.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "lockstep/callbacks/lambda_callback.hpp"
#include "lockstep/cluster/run.hpp"
#include "lockstep/data/tensor_slices.hpp"
#include "lockstep/extra/parameter_server.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/losses/regression.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/sgd.hpp"

namespace ls = lockstep;

using Line = ls::Sequential<ls::Input<2>, ls::Dense<1>>;

int main(int argc, char** argv) {
  return ls::run(argc, argv, [](int, char** arguments) {
    const std::chrono::milliseconds pause(std::atoi(arguments[3]));
    ls::ParameterServerStrategy strategy(
        {.timeout = std::chrono::seconds(arguments[5] != nullptr ? std::atoi(arguments[5]) : 20),
         .startup_timeout = std::chrono::seconds(60),
         .backup_dir = arguments[1],
         .backup_freq = 1});
    std::vector<float> x, y;
    for (int i = 0; i < 64; ++i) {
      x.push_back(static_cast<float>(i % 8) / 8);
      x.push_back(static_cast<float>(i / 8) / 8);
      y.push_back(2 * x[x.size() - 2] - x.back() + 0.5F);
    }
    const auto data =
        ls::from_tensor_slices(ls::Tensor<float>(x, {64, 2}), ls::Tensor<float>(y, {64, 1}))
            .shuffle(64)
            .batch(16);
    auto model = ls::compile<Line>(strategy, {.seed = 1}, ls::MeanSquaredError{},
                                   ls::SGD{.learning_rate = 0.1, .momentum = 0.5});
    const ls::LambdaCallback progress{
        .on_epoch_end =
            [&](int epoch, ls::Logs&) {
              std::printf("worker %d: epoch %d\n", strategy.worker_index(), epoch + 1);
              std::fflush(stdout);
              for (int i = 0; epoch >= 4 && i < 600 && !std::filesystem::exists(arguments[4]); ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
            },
        .on_train_batch_end = [&](std::int64_t, ls::Logs&) { std::this_thread::sleep_for(pause); }};
    model.fit(data, {.epochs = std::atoi(arguments[2]), .verbose = 0}, progress);
    std::printf("worker %d: loss %.6f weights %08x\n", strategy.worker_index(),
                model.evaluate(data).at("loss"), model.parameters_crc32c());
  });
}
