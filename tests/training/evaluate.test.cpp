#include "lockstep/training/evaluate.hpp"
#include "lockstep/data/tensor_slices.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/tiny_trainer.hpp"

namespace ls = lockstep;
using namespace lockstep_test;

namespace {

ls::AnyDataset batches(int samples, std::int64_t batch) {
  const TinyData data(samples);
  return ls::AnyDataset(ls::from_tensor_slices(data.x, data.y).batch(batch));
}

}  // namespace

TEST_CASE("evaluate: any number of replicas gives the same figures, weighted by samples") {
  for (const std::int64_t batch : {1, 3, 7, 40}) {
    TinyTrainer one;
    const ls::Logs expected = one.evaluate(batches(23, 23));
    for (int replicas = 1; replicas <= 4; ++replicas) {
      CAPTURE(replicas);
      TinyTrainer trainer({.replicas = replicas});
      const ls::Logs logs = trainer.evaluate(batches(23, batch));
      CHECK(logs.begin()->first == "loss");
      CHECK(logs.at("loss") == doctest::Approx(expected.at("loss")).epsilon(1e-6));
      CHECK(logs.at("accuracy") == expected.at("accuracy"));
      CHECK(trainer.iterations() == 0);
    }
  }
}

TEST_CASE("evaluate: the order of hooks") {
  TinyTrainer trainer;
  Recorder recorder;
  trainer.evaluate(batches(10, 4), {}, &recorder);
  CHECK(recorder.calls == std::vector<std::string>{"test_begin", "test_batch_begin 0",
                                                   "test_batch_end 0", "test_batch_begin 1",
                                                   "test_batch_end 1", "test_batch_begin 2",
                                                   "test_batch_end 2", "test_end"});
}

TEST_CASE("evaluate: plain arrays, and some steps of data without end") {
  TinyTrainer trainer;
  const TinyData data(20);
  const ls::Logs all = trainer.evaluate(batches(20, 20));
  CHECK(trainer.evaluate(data).at("loss") == doctest::Approx(all.at("loss")).epsilon(1e-6));
  CHECK(trainer.evaluate(data, {.batch_size = 7}).at("accuracy") == all.at("accuracy"));
  RowDataset endless(data, 5);
  endless.reported_cardinality = ls::infinite_cardinality;
  CHECK(trainer.evaluate(endless, {.steps = 4}).at("loss") ==
        doctest::Approx(all.at("loss")).epsilon(1e-6));
  CHECK(trainer.evaluate(endless, {.steps = 8}).at("accuracy") ==
        all.at("accuracy"));  // twice the same
}

TEST_CASE("evaluate: wrong options and empty data are errors") {
  for (const int replicas : {1, 2}) {
    TinyTrainer trainer({.replicas = replicas});
    RowDataset data(TinyData(10), 5);
    CHECK_THROWS_AS((void)trainer.evaluate(data, {.steps = 0}), ls::ConfigurationError);
    CHECK_THROWS_AS((void)trainer.evaluate(data, {.batch_size = 5}), ls::ConfigurationError);
    CHECK_THROWS_AS((void)trainer.evaluate(TinyData(10), {.batch_size = 0}),
                    ls::ConfigurationError);
    CHECK_THROWS_AS((void)trainer.evaluate(ls::AnyDataset()), ls::ConfigurationError);
    data.reported_cardinality = ls::infinite_cardinality;
    CHECK_THROWS_AS((void)trainer.evaluate(data), ls::ConfigurationError);
    CHECK(contains(message_of<ls::DataError>([&] { trainer.evaluate(RowDataset(TinyData(0), 5)); }),
                   "the data is empty"));
  }
}

TEST_CASE("evaluate, predict: steps beyond the data are said") {
  for (const int replicas : {1, 2}) {
    TinyTrainer trainer({.replicas = replicas});
    const CapturedStderr output;
    trainer.evaluate(batches(20, 5), {.steps = 4});
    trainer.predict(batches(20, 5), {.steps = 4});
    CHECK(output.text().empty());
    trainer.evaluate(batches(20, 5), {.steps = 5});
    CHECK(contains(
        output.text(),
        "warning: evaluate: the data ran out after 4 of 5 batches; use repeat() for more data"));
    trainer.predict(batches(20, 5), {.steps = 7});
    CHECK(contains(output.text(), "warning: predict: the data ran out after 4 of 7 batches"));
  }
}

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
