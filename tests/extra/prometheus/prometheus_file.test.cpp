#include "lockstep/extra/prometheus/prometheus.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "callbacks/fake_training.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace std::chrono_literals;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::file_text;
using lockstep_test::TemporaryFolder;

namespace {}  // namespace

TEST_CASE("PrometheusFile: steps, figures, times by rank and the end, in the text format") {
  const TemporaryFolder folder;
  FakeTraining training;
  ls::PrometheusFile prometheus({.filename = folder.path("metrics/{rank}.prom"), .interval = 0ms});
  const std::string path = folder.path("metrics/0.prom");
  prometheus.on_train_begin(training);
  CHECK(contains(file_text(path), "lockstep_training{worker=\"0\"} 1\n"));
  prometheus.on_epoch_begin(training, 4);
  training.times = {{.compute = 1.5, .collective = 0.5}, {.compute = 1, .collective = 1}};
  ls::Logs logs;
  logs.set("loss", 0.25);
  logs.set("odd \"name\"", std::nan(""));
  prometheus.on_train_batch_end(training, 0, logs);
  const std::string text = file_text(path);
  for (const char* line :
       {"# TYPE lockstep_updates_total counter\n", "lockstep_updates_total{worker=\"0\"} ",
        "lockstep_epoch{worker=\"0\"} 4\n", "lockstep_figure{worker=\"0\",name=\"loss\"} 0.25\n",
        "lockstep_figure{worker=\"0\",name=\"odd \\\"name\\\"\"} NaN\n",
        "lockstep_workers{worker=\"0\"} 2\n", "lockstep_failures_total{worker=\"0\"} 0\n",
        "lockstep_compute_seconds{rank=\"0\"} 1.5\n", "lockstep_wait_seconds{rank=\"1\"} 1\n"}) {
    CAPTURE(line);
    CHECK(contains(text, line));
  }
  prometheus.on_train_abort(training);
  CHECK(contains(file_text(path), "lockstep_training{worker=\"0\"} 0\n"));
  CHECK(contains(file_text(path), "lockstep_failures_total{worker=\"0\"} 1\n"));
  const std::string last = file_text(path);
  prometheus.on_train_batch_end(training, 0, logs);  // with ElasticOptions, not as the chief
  prometheus.on_epoch_end(training, 0, logs);
  CHECK(file_text(path) == last);
}

TEST_CASE("PrometheusFile: between two writes an interval passes, and the end is always written") {
  const TemporaryFolder folder;
  FakeTraining training;
  ls::PrometheusFile prometheus({.filename = folder.path("one.prom"), .interval = 1h});
  prometheus.on_train_begin(training);
  const std::string first = file_text(folder.path("one.prom"));
  ls::Logs logs;
  logs.set("loss", 1);
  prometheus.on_train_batch_end(training, 0, logs);
  CHECK(file_text(folder.path("one.prom")) == first);
  prometheus.on_train_end(training, logs);
  CHECK(contains(file_text(folder.path("one.prom")), "name=\"loss\"} 1\n"));
}

TEST_CASE("PrometheusFile: what cannot be written is a warning, once; wrong options are refused") {
  FakeTraining training;
  const CapturedStderr captured;
  ls::PrometheusFile prometheus({.filename = "/proc/no/such/folder/file", .interval = 0ms});
  prometheus.on_train_begin(training);
  ls::Logs logs;
  prometheus.on_train_batch_end(training, 0, logs);
  const std::string text = captured.text();
  CHECK(contains(text, "warning: PrometheusFile: "));
  CHECK(text.find("PrometheusFile") == text.rfind("PrometheusFile"));
  CHECK_THROWS_WITH_AS(ls::PrometheusFile({.filename = ""}), doctest::Contains("filename is empty"),
                       ls::ConfigurationError);
  CHECK_THROWS_WITH_AS(ls::PrometheusFile({.filename = "a", .interval = -1ms}),
                       doctest::Contains("got -1 ms"), ls::ConfigurationError);
}
