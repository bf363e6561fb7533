#include "lockstep/training/model_training.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {
const RowDataset& data() {
  static const RowDataset rows(TinyData(20), 5);
  return rows;
}
}  // namespace

TEST_CASE("ModelTraining: in evaluate a request to stop or to restore means nothing") {
  TinyTrainer trainer({.learning_rate = 0.25});
  trainer.fit(data());
  const std::uint32_t before = trainer.parameters_crc32c();
  Recorder recorder;
  recorder.at_test_begin = [](ls::Training& training) {
    training.stop_training();
    training.restore(std::vector<std::byte>(10), nullptr);
    CHECK(training.learning_rate() == 0.25);
    CHECK(training.iterations() == 4);
    CHECK(training.is_chief());
    CHECK(training.worker_index() == 0);
    CHECK(training.num_workers() == 1);
  };
  trainer.evaluate(data(), {}, &recorder);
  CHECK(recorder.count("test_batch_end") == 4);
  CHECK(trainer.parameters_crc32c() == before);
}

TEST_CASE("ModelTraining: parameters are all of them, and are put back") {
  TinyTrainer trainer;
  Recorder recorder;
  recorder.at_test_begin = [](ls::Training& training) {
    const std::vector<std::byte> parameters = training.parameters();
    training.set_parameters(std::vector<std::byte>(parameters.size()));
    CHECK(training.parameters() == std::vector<std::byte>(parameters.size()));
    training.set_parameters(parameters);
    CHECK(training.parameters() == parameters);
  };
  const std::uint32_t before = trainer.parameters_crc32c();
  trainer.evaluate(data(), {}, &recorder);
  CHECK(trainer.parameters_crc32c() == before);
}
