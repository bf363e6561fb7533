#include "lockstep/training/predict.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/tensor_slices.hpp"
#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

TEST_CASE("predict: all rows, in the order of the dataset, whatever batch and number of replicas") {
  const TinyData data(23);
  TinyTrainer one;
  const TinyTrainer::Matrix expected = one.predict(data, {.batch_size = 23});
  REQUIRE(expected.rows() == 23);
  REQUIRE(expected.cols() == 3);
  for (int replicas = 1; replicas <= 4; ++replicas) {
    TinyTrainer trainer({.replicas = replicas});
    for (const std::int64_t batch : {1, 2, 3, 4, 5, 16, 23, 100}) {
      CAPTURE(replicas);
      CAPTURE(batch);
      const TinyTrainer::Matrix rows = trainer.predict(data, {.batch_size = batch});
      REQUIRE(rows.rows() == 23);
      CHECK(rows.isApprox(expected, 1e-6F));
    }
    CHECK(trainer.predict(RowDataset(data, 5), {.steps = 2}).isApprox(expected.topRows(10), 1e-6F));
  }
}

TEST_CASE("predict: data with and without targets, and hooks") {
  TinyTrainer trainer;
  Recorder recorder;
  const TinyData data(7);
  const TinyTrainer::Matrix rows = trainer.predict(data);
  CHECK(trainer.predict(ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).batch(7)), {},
                        &recorder) == rows);
  CHECK(recorder.calls == std::vector<std::string>{"predict_begin", "predict_batch_begin 0",
                                                   "predict_batch_end 0", "predict_end"});
}

TEST_CASE("predict: no data are no rows; wrong options are errors") {
  TinyTrainer trainer({.replicas = 2});
  const TinyTrainer::Matrix none = trainer.predict(TinyData(0));
  CHECK(none.rows() == 0);
  CHECK(none.cols() == 3);
  RowDataset data(TinyData(10), 5);
  CHECK_THROWS_AS((void)trainer.predict(data, {.steps = 0}), ls::ConfigurationError);
  CHECK_THROWS_AS((void)trainer.predict(data, {.batch_size = 5}), ls::ConfigurationError);
  CHECK_THROWS_AS((void)trainer.predict(TinyData(10), {.batch_size = -1}), ls::ConfigurationError);
  data.reported_cardinality = ls::infinite_cardinality;
  CHECK_THROWS_AS((void)trainer.predict(data), ls::ConfigurationError);
}

TEST_CASE("predict: changes nothing") {
  TinyTrainer trainer({.momentum = 0.9}), other({.momentum = 0.9});
  const RowDataset data(TinyData(20), 5);
  trainer.fit(data);
  other.fit(data);
  trainer.predict(data);
  trainer.evaluate(data);
  trainer.fit(data);
  other.fit(data);
  CHECK(trainer.parameters_crc32c() == other.parameters_crc32c());
}
