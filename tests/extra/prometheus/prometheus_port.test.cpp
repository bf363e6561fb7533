#include "lockstep/extra/prometheus/prometheus.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "extra/prometheus/http_client.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/traffic.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/process.hpp"
#include "support/sanitizer.hpp"

namespace ls = lockstep;
using namespace std::chrono_literals;
using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::FakeTraining;
using lockstep_test::http_ask;
using lockstep_test::http_get;
using lockstep_test::HttpClient;
using lockstep_test::message_of;
using ls::detail::MetricsServer;

namespace {

constexpr const char* here = "127.0.0.1";

MetricsServer::Pages pages(const std::string& metrics = "a 1\n", const std::string& ailment = "") {
  return {[metrics] { return metrics; }, [ailment] { return ailment; }};
}

/// A header's value and the text behind the headers.
std::string value_of(const std::string& answer, const std::string& header) {
  const std::size_t at = answer.find("\r\n" + header + ": ") + header.size() + 4;
  return answer.substr(at, answer.find("\r\n", at) - at);
}
std::string text_of(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

}  // namespace

TEST_CASE("MetricsServer: /metrics is made anew for each request, with the type and the length") {
  std::atomic<int> asked = 0;
  const MetricsServer server(
      here, 0, 1,
      {[&] { return "asked " + std::to_string(++asked) + "\n"; }, [] { return std::string(); }});
  REQUIRE(server.port() > 0);
  for (const char* const path : {"/metrics", "/metrics?name[]=asked"}) {
    const std::string answer = http_get(server.port(), path);
    CHECK(answer.starts_with("HTTP/1.0 200 OK\r\n"));
    CHECK(text_of(answer) == "asked " + std::to_string(asked) + "\n");
    CHECK(value_of(answer, "Content-Length") == std::to_string(text_of(answer).size()));
    CHECK(value_of(answer, "Content-Type") == "text/plain; version=0.0.4; charset=utf-8");
  }
  CHECK(asked == 2);
}

// (Not with a sanitizer, which opens files itself to look at objects.)
TEST_CASE("MetricsServer: where no file can be opened, the limit and what raises it are named" *
          doctest::skip(lockstep_test::has_sanitizer)) {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int next = ::dup(0);  // the lowest that is free
  ::close(next);
  for (const int spare : {0, 2}) {  // for the pipe
    const rlimit few{.rlim_cur = static_cast<rlim_t>(next + spare), .rlim_max = limit.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    const std::string message =
        message_of<ls::Error>([] { const MetricsServer server(here, 0, 1, pages()); });
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(message == (spare == 0 ? "cannot make a pipe" : "cannot listen on 127.0.0.1, port 0") +
                         std::string(": Too many open files; this process may have ") +
                         std::to_string(next + spare) +
                         " (RLIMIT_NOFILE): raise the limit (ulimit -n 1024)");
  }
}

TEST_CASE("MetricsServer: /healthz is 200 where all is well, and else 503 with the ailment") {
  const MetricsServer well(here, 0, 1, pages());
  CHECK(text_of(http_get(well.port(), "/healthz")) == "ok\n");
  const MetricsServer ill(here, 0, 1, pages("", "no step for 7 s"));
  const std::string answer = http_get(ill.port(), "/healthz");
  CHECK(answer.starts_with("HTTP/1.0 503 Service Unavailable\r\n"));
  CHECK(text_of(answer) == "no step for 7 s\n");
}

TEST_CASE("MetricsServer: other requests are answered, and what is no request") {
  const MetricsServer server(here, 0, 1, pages());
  const int port = server.port();
  CHECK(http_get(port, "/").starts_with("HTTP/1.0 404 Not Found\r\n"));
  CHECK(http_get(port, "/healthz?verbose=1").starts_with("HTTP/1.0 200 OK\r\n"));
  CHECK(http_ask(port, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 405 Method Not"));
  CHECK(value_of(http_ask(port, "PUT / HTTP/1.1\n\n"), "Allow") == "GET, HEAD");
  for (const char* const none : {"hello\r\n\r\n", "GET /metrics\r\n\r\n", "\r\n\r\n"})
    CHECK(http_ask(port, none).starts_with("HTTP/1.0 400 Bad Request\r\n"));
  const std::string head = http_ask(port, "HEAD /metrics HTTP/1.0\r\n\r\n");
  CHECK(head.starts_with("HTTP/1.0 200 OK\r\n"));
  CHECK(value_of(head, "Content-Length") == "4");
  CHECK(text_of(head).empty());
  CHECK(http_ask(port, "GET /" + std::string(5000, 'x')).starts_with("HTTP/1.0 431 "));
}

TEST_CASE(
    "MetricsServer: a request may come in pieces, and an answer be longer than a socket's "
    "buffer") {
  const std::string page(std::size_t{8} << 20, 'x');
  const MetricsServer server(here, 0, 1, pages(page));
  const HttpClient client(server.port());
  for (const char* const piece : {"GET /met", "rics HT", "TP/1.0\r\n\r", "\n"}) {
    client.send(piece);
    std::this_thread::sleep_for(5ms);
  }
  CHECK(text_of(client.all()) == page);
}

TEST_CASE("MetricsServer: a page that throws is an answer, and the next one is served") {
  std::atomic<bool> fails = true;
  const MetricsServer server(here, 0, 1,
                             {[&]() -> std::string {
                                if (fails) throw std::runtime_error("out of ink");
                                return "a 1\n";
                              },
                              [] { return std::string(); }});
  const std::string answer = http_get(server.port(), "/metrics");
  CHECK(answer.starts_with("HTTP/1.0 500 Internal Server Error\r\n"));
  CHECK(text_of(answer) == "out of ink\n");
  fails = false;
  CHECK(text_of(http_get(server.port(), "/metrics")) == "a 1\n");
}

TEST_CASE(
    "MetricsServer: silent clients do not keep others out, and the end does not wait for "
    "them") {
  std::vector<std::unique_ptr<HttpClient>> silent;
  auto server = std::make_unique<MetricsServer>(here, 0, 1, pages());
  silent.reserve(2 * MetricsServer::most_connections);
  for (int i = 0; i < 2 * MetricsServer::most_connections; ++i)
    silent.push_back(std::make_unique<HttpClient>(server->port()));
  silent.resize(MetricsServer::most_connections - 1);  // and those in the queue go away
  CHECK(contains(http_get(server->port(), "/healthz"), "ok\n"));
  const auto begin = std::chrono::steady_clock::now();
  const int port = server->port();
  server.reset();
  CHECK(std::chrono::steady_clock::now() - begin < MetricsServer::time_limit / 2);
  CHECK_FALSE(HttpClient(port).is_connected());  // the server has closed its socket
  CHECK(silent.front()->all().empty());          // and the connections are closed
}

TEST_CASE("MetricsServer: more silent clients than there is room for do not delay an answer") {
  const MetricsServer server(here, 0, 1, pages());
  std::vector<std::unique_ptr<HttpClient>> silent;
  for (int i = 0; i < 5 * MetricsServer::most_connections; ++i)
    silent.push_back(std::make_unique<HttpClient>(server.port()));
  for (int i = 0; i < 10; ++i) CHECK(contains(http_get(server.port(), "/healthz"), "ok\n"));
  // No place has become free by itself: those that came last are there.
  silent.back()->send("GET /healthz HTTP/1.0\r\n\r\n");
  CHECK(contains(silent.back()->all(), "ok\n"));
  CHECK(silent.front()->all().empty());
}

TEST_CASE("MetricsServer: a taken port is passed over, for as many as were given") {
  const MetricsServer first(here, 0, 1, pages());
  const std::string taken = std::to_string(first.port());
  CHECK(contains(
      message_of<ls::Error>([&] { const MetricsServer second(here, first.port(), 1, pages()); }),
      "cannot listen on 127.0.0.1, port " + taken + ": "));
  try {
    const MetricsServer second(here, first.port(), 4, pages());
    CHECK(second.port() > first.port());
    CHECK(second.port() < first.port() + 4);
  } catch (const ls::Error& error) {  // other programs have them
    CHECK(contains(error.what(), "port " + taken + " to "));
  }
}

TEST_CASE("MetricsServer: an address that is no IP address is refused") {
  for (const char* const address : {"localhost", "", "127.0.0.256"})
    CHECK(contains(message_of<ls::ConfigurationError>(
                       [&] { const MetricsServer server(address, 0, 1, pages()); }),
                   "' is no IP address; expected one such as 127.0.0.1"));
}

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
  using lockstep_test::run_process;
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
