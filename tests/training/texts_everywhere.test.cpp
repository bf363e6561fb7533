// Texts in tar files, read in parallel and turned into numbers: equal weights on one device, on
// threads and on workers over TCP, also where a run is cut off at a random step and resumed; a
// learning rate is found alike everywhere.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/callbacks/backup_and_restore.hpp"
#include "lockstep/callbacks/learning_rate.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/data/parallel_read.hpp"
#include "lockstep/datasets/tar_shards.hpp"
#include "lockstep/extra/text/text_vectorization.hpp"
#include "lockstep/layers/dense.hpp"
#include "lockstep/layers/embedding.hpp"
#include "lockstep/layers/input.hpp"
#include "lockstep/layers/pooling1d.hpp"
#include "lockstep/losses/crossentropies.hpp"
#include "lockstep/model/model.hpp"
#include "lockstep/network/sequential.hpp"
#include "lockstep/optimizers/adam.hpp"
#include "support/tar_files.hpp"
#include "support/tcp_workers.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

constexpr std::size_t length = 6;
using Texts = ls::TextVectorization<ls::TextVectorizationOptions{.max_tokens = 12,
                                                                 .output_sequence_length = length}>;
using Net = ls::Sequential<ls::Input<length>, ls::Embedding<Texts::max_tokens, 4>,
                           ls::GlobalAveragePooling1D, ls::Dense<2>>;

const std::vector<std::string> words{"red", "green", "blue", "sun", "moon", "sea", "hill"};

/// Two tar files of 24 texts; the class says whether a text begins with one of the first words.
std::vector<std::string> write_texts(const TemporaryFolder& folder) {
  std::vector<std::string> paths;
  for (std::size_t shard = 0; shard < 2; ++shard) {
    std::string bytes;
    for (std::size_t i = 0; i < 24; ++i) {
      const std::size_t first = (i * i + shard) % words.size();
      std::string text = words[first];
      for (std::size_t w = 0; w < i % 5; ++w) text += " " + words[(i * w + 3) % words.size()];
      const std::string name = std::to_string(100 + i);
      bytes += tar::member(name + ".cls", first < 3 ? "1" : "0") + tar::member(name + ".txt", text);
    }
    bytes += tar::end_blocks;
    paths.push_back(folder.write(std::to_string(shard) + ".tar", {bytes.begin(), bytes.end()}));
  }
  return paths;
}

/// (As there are two files, two workers would read one each.)
ls::AnyDataset data(const std::vector<std::string>& paths) {
  Texts texts;
  texts.adapt(words);
  return ls::AnyDataset(
      ls::from_tar_shards(paths,
                          [texts](const ls::TarSample& files, auto& sample) {
                            texts(files.text("txt"), sample.x);
                            sample.y[0] =
                                static_cast<std::remove_reference_t<decltype(sample.y[0])>>(
                                    files.number("cls"));
                          },
                          {.sample_size = length, .target_size = 1})
          .with_options({.auto_shard_policy = ls::AutoShardPolicy::data})
          .shuffle(48)
          .parallel_read(2)
          .batch(8)
          .prefetch(2));
}

struct PowerFailure {
  std::optional<std::int64_t> before_update;
  void on_train_batch_begin(ls::Training& training, std::int64_t) const {
    if (before_update && training.iterations() == *before_update)
      throw std::runtime_error("power failure");
  }
};

auto compiled(TcpStrategy& strategy) {
  return ls::compile<Net, double>(strategy, {.seed = 3},
                                  ls::SparseCategoricalCrossentropy{.from_logits = true},
                                  ls::Adam{.learning_rate = 0.05});
}

std::vector<double> weights_of(auto& model) {
  std::vector<double> all;
  for (const auto& weight : model.get_weights())
    all.insert(all.end(), weight.values.begin(), weight.values.end());
  return all;
}

using Result = std::vector<double>;

/// The weights of each worker at the end.
std::vector<Result> run(int workers, int replicas, const std::vector<std::string>& paths,
                        const std::string& folder, std::optional<std::int64_t> fail_before = {}) {
  return on_tcp_workers<Result>(
      workers, replicas, fail_before ? "power failure" : "", [&](TcpStrategy& strategy) {
        auto model = compiled(strategy);
        const std::string own = folder + "-" + std::to_string(strategy.worker_index());
        model.fit(data(paths), {.epochs = 3, .verbose = 0}, PowerFailure{fail_before},
                  ls::BackupAndRestore{.backup_dir = own, .save_freq = 1, .asynchronous = false});
        return weights_of(model);
      });
}

}  // namespace

TEST_CASE("texts in tar files: one device, threads and workers, resumed at a random step") {
  const TemporaryFolder folder;
  const std::vector<std::string> paths = write_texts(folder);
  const Result one = run(1, 1, paths, folder.path("one")).front();
  const Result threads = run(1, 2, paths, folder.path("threads")).front();
  REQUIRE(one.size() == threads.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(one[i] == doctest::Approx(threads[i]).epsilon(1e-8));
  for (const Result& worker : run(2, 1, paths, folder.path("workers"))) CHECK(worker == threads);

  ls::RandomStream random{ls::RandomKey(30)};
  int number = 0;
  for (const auto& place : {std::pair{1, 1}, std::pair{1, 2}, std::pair{2, 1}, std::pair{2, 1}}) {
    const int workers = place.first, replicas = place.second;
    const auto step = static_cast<std::int64_t>(random.uniform(1, 18));
    CAPTURE(step);
    CAPTURE(workers);
    const std::string own = folder.path("cut" + std::to_string(number++));
    run(workers, replicas, paths, own, step);
    for (const Result& worker : run(workers, replicas, paths, own))
      CHECK(worker == (workers * replicas == 1 ? one : threads));
  }
}

TEST_CASE(
    "LearningRateFinder: the same curve on threads and on workers, and the weights come back") {
  const TemporaryFolder folder;
  const std::vector<std::string> paths = write_texts(folder);
  const auto find = [&](TcpStrategy& strategy) {
    auto model = compiled(strategy);
    const Result before = weights_of(model);
    ls::LearningRateFinder finder({.steps = 20, .verbose = 0});
    model.fit(data(paths), {.epochs = 10, .verbose = 0}, finder);
    CHECK(weights_of(model) == before);
    Result curve{finder.suggestion().value()};
    for (const auto& point : finder.points()) curve.push_back(point.loss);
    return curve;
  };
  const Result one = on_tcp_workers<Result>(1, 1, "", find).front();
  const Result threads = on_tcp_workers<Result>(1, 2, "", find).front();
  CHECK(one.size() > 5);
  REQUIRE(one.size() == threads.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(one[i] == doctest::Approx(threads[i]).epsilon(1e-6));
  for (const Result& worker : on_tcp_workers<Result>(2, 1, "", find)) CHECK(worker == threads);
}
