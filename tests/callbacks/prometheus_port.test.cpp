#include "lockstep/callbacks/prometheus_port.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "callbacks/fake_training.hpp"
#include "callbacks/http_client.hpp"
#include "lockstep/core/traffic.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/process.hpp"

namespace ls = lockstep;
using namespace std::chrono_literals;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::http_get;

namespace {

/// Sets a variable, while it lives.
struct Variable {
  Variable(const char* n, const char* value) : name(n) { ::setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name); }
  const char* name;
};

}  // namespace

TEST_CASE("PrometheusPort: /metrics has the figures of the running fit, /healthz says ok") {
  FakeTraining training;
  const CapturedStderr captured;
  ls::PrometheusPort port({.port = 0});
  CHECK(port.port() == 0);
  port.on_train_begin(training);
  REQUIRE(port.port() > 0);
  CHECK(contains(captured.text(), "metrics of worker 0: http://127.0.0.1:" +
                                      std::to_string(port.port()) + "/metrics"));
  CHECK(contains(http_get(port.port(), "/metrics"), "lockstep_training{worker=\"0\"} 1\n"));

  port.on_epoch_begin(training, 2);
  training.updates = 7;
  training.times = {{.compute = 1.5, .collective = 0.5}, {.compute = 1, .collective = 1}};
  ls::detail::count_traffic(100, 50);
  ls::Logs logs;
  logs.set("loss", 0.25);
  port.on_train_batch_end(training, 0, logs);
  port.on_epoch_end(training, 2, logs);
  const std::string answer = http_get(port.port(), "/metrics");
  CHECK(answer.starts_with("HTTP/1.0 200 OK\r\n"));
  CHECK(contains(answer, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  const std::string text = answer.substr(answer.find("\r\n\r\n") + 4);
  CHECK(contains(answer, "\r\nContent-Length: " + std::to_string(text.size()) + "\r\n"));
  for (const char* line :
       {"lockstep_updates_total{worker=\"0\"} 7\n", "lockstep_epoch{worker=\"0\"} 2\n",
        "lockstep_step_seconds{worker=\"0\"} ",
        "lockstep_figure{worker=\"0\",name=\"loss\"} 0.25\n",
        "lockstep_wait_seconds{rank=\"1\"} 1\n", "lockstep_failures_total{worker=\"0\"} 0\n",
        "# TYPE lockstep_received_bytes_total counter\n"}) {
    CAPTURE(line);
    CHECK(contains(text, line));
  }
  CHECK(ls::traffic().sent >= 100);
  CHECK(contains(http_get(port.port(), "/healthz"), "\r\n\r\nok\n"));
  port.on_train_abort(training);
  CHECK(contains(http_get(port.port(), "/metrics"), "lockstep_failures_total{worker=\"0\"} 1\n"));
}

TEST_CASE("PrometheusPort: a fit that is stuck is ill, one that has ended is not") {
  FakeTraining training;
  const CapturedStderr captured;
  ls::PrometheusPort port({.port = 0, .stale_after = 1ms});
  port.on_train_begin(training);
  std::this_thread::sleep_for(20ms);
  const std::string answer = http_get(port.port(), "/healthz");
  CHECK(answer.starts_with("HTTP/1.0 503 Service Unavailable\r\n"));
  CHECK(contains(answer, "no step for "));
  ls::Logs logs;
  port.on_train_end(training, logs);
  CHECK(contains(http_get(port.port(), "/healthz"), "ok\n"));
}

TEST_CASE(
    "PrometheusPort: off by default; a variable turns it on, and a taken port is passed over") {
  FakeTraining training;
  const CapturedStderr captured;
  ls::PrometheusPort off;
  off.on_train_begin(training);
  CHECK(off.port() == 0);

  ls::PrometheusPort first({.port = 0});
  first.on_train_begin(training);
  const std::string taken = std::to_string(first.port());
  const Variable variable("LOCKSTEP_METRICS_PORT", taken.c_str());
  ls::PrometheusPort second, third;
  second.on_train_begin(training);
  CHECK(second.port() > first.port());
  third.on_train_begin(training);  // FakeTraining has two workers, and others have two ports
  CHECK(third.port() > second.port());
}

TEST_CASE(
    "PrometheusPort: where no port is free, or the address is not this machine's: a warning") {
  FakeTraining training;
  const CapturedStderr captured;
  ls::PrometheusPort port({.port = 9, .address = "192.0.2.1"});  // of documents, RFC 5737
  port.on_train_begin(training);
  CHECK(port.port() == 0);
  CHECK(contains(captured.text(),
                 "warning: PrometheusPort: worker 0 cannot listen on 192.0.2.1, port 9 to 18: "));
  ls::Logs logs;
  port.on_train_batch_end(training, 0, logs);
  port.on_train_end(training, logs);
}

TEST_CASE("PrometheusPort: what makes no sense is refused") {
  CHECK_THROWS_WITH_AS(ls::PrometheusPort({.port = 70000}), doctest::Contains("got 70000"),
                       ls::ConfigurationError);
  CHECK_THROWS_WITH_AS(ls::PrometheusPort({.port = 0, .stale_after = 0ms}),
                       doctest::Contains("stale_after"), ls::ConfigurationError);
  const Variable variable("LOCKSTEP_METRICS_PORT", "94a");
  CHECK_THROWS_WITH_AS(ls::PrometheusPort(), doctest::Contains("LOCKSTEP_METRICS_PORT"),
                       ls::ConfigurationError);
  FakeTraining training;
  ls::PrometheusPort port({.port = 0, .address = "localhost"});
  CHECK_THROWS_WITH_AS(port.on_train_begin(training), doctest::Contains("is no IP address"),
                       ls::ConfigurationError);
}

TEST_CASE("PrometheusPort: curl reads it") {
  using lockstep::testing::run_process;
  if (::access("/usr/bin/curl", X_OK) != 0) {
    MESSAGE("there is no /usr/bin/curl: it is not tried");
    return;
  }
  FakeTraining training;
  const CapturedStderr captured;
  ls::PrometheusPort port({.port = 0});
  port.on_train_begin(training);
  const std::string base = "http://127.0.0.1:" + std::to_string(port.port());
  const auto finished = run_process({"/usr/bin/curl", "--noproxy", "*", "--fail", "--silent",
                                     "--max-time", "10", base + "/metrics"});
  CHECK(finished.exit_code == 0);
  CHECK(contains(finished.output, "lockstep_workers{worker=\"0\"} 2\n"));
}
