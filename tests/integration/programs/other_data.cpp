// Trains, with data that depend on the worker: other_data equal|batch|rows|contents|seed|files
// [FOLDER] "files": FOLDER has a folder for each worker, worker-0 and worker-1, with that worker's
// files alone.
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/lockstep.hpp"

namespace ls = lockstep;

namespace {

using Net = ls::Sequential<ls::Input<4>, ls::Dense<3>>;

/// `rows` samples of 4 numbers, with classes 0 .. 2.
auto samples(int rows, float offset = 0) {
  std::vector<float> x;
  std::vector<int> y;
  for (int i = 0; i < rows; ++i) {
    for (int f = 0; f < 4; ++f) x.push_back(static_cast<float>((i * 7 + f) % 5) + offset);
    y.push_back(i % 3);
  }
  return std::pair(ls::Tensor<float>(std::move(x), {static_cast<std::size_t>(rows), 4}),
                   ls::Tensor<int>(std::move(y)));
}

ls::AnyDataset dataset(const std::string& mode, int worker, const std::string& folder) {
  if (mode == "files") {
    const std::string mine = folder + "/worker-" + std::to_string(worker) + "/";
    // A file has the number of its rows.
    return ls::AnyDataset(ls::from_files({mine + "0", mine + "1"},
                                         [](const std::string& path) {
                                           int rows = 0;
                                           if (!(std::ifstream(path) >> rows))
                                             throw ls::DataError("cannot read " + path);
                                           return samples(rows);
                                         })
                              .shuffle(100)
                              .batch(8));
  }
  const bool other = worker == 1;
  auto [x, y] =
      samples(other && mode == "rows" ? 71 : 72, other && mode == "contents" ? 1.0F : 0.0F);
  const auto seed = static_cast<std::uint64_t>(other && mode == "seed" ? 6 : 5);
  return ls::AnyDataset(
      ls::from_tensor_slices(x, y).shuffle(72, seed).batch(other && mode == "batch" ? 4 : 8));
}

}  // namespace

int main(int argc, char** argv) {
  return ls::run(argc, argv, [&] {
    ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>> strategy;
    const auto data = dataset(argv[1], strategy.worker_index(), argc > 2 ? argv[2] : "");
    auto model = ls::compile<Net>(strategy, {.seed = 1},
                                  ls::SparseCategoricalCrossentropy{.from_logits = true},
                                  ls::SGD{.learning_rate = 0.1});
    model.fit(data, {.epochs = 2});
    std::printf("final: updates=%d parameters_crc32c=%08x\n", static_cast<int>(model.iterations()),
                static_cast<unsigned>(model.parameters_crc32c()));
  });
}
