#include "lockstep/extra/prometheus/prometheus.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/traffic.hpp"

#include <doctest/doctest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "callbacks/fake_training.hpp"
#include "extra/prometheus/http_client.hpp"
#include "support/captured_stderr.hpp"
#include "support/model_testing.hpp"
#include "support/process.hpp"
#include "support/sanitizer.hpp"
#include "support/temporary_folder.hpp"

namespace ls = lockstep;
using namespace std::chrono_literals;
using lockstep_test::FakeTraining;
using ls::detail::PrometheusText;

namespace {

using Labels = std::map<std::string, std::string>;

/// What the text says: by name and labels.
struct Metrics {
  std::map<std::pair<std::string, Labels>, double> samples;
  std::map<std::string, std::string> types;

  [[nodiscard]] double at(const std::string& name, const Labels& labels = {{"worker", "0"}}) const {
    return samples.at({name, labels});
  }
};

/// Reads version 0.0.4 of the text format by its own description
/// (prometheus.io/docs/instrumenting/exposition_formats), and refuses whatever that does not allow.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  Metrics read() {
    while (!rest_.empty()) {
      const std::size_t end = rest_.find('\n');
      if (end == rest_.npos) refuse("the last line does not end");
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
      take("# HELP ") ? help() : take("# TYPE ") ? type() : sample();
    }
    return found_;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw std::runtime_error(why + ": " + std::string(line_));
  }
  bool take(std::string_view what) {
    if (!line_.starts_with(what)) return false;
    line_.remove_prefix(what.size());
    return true;
  }
  void expect(std::string_view what) {
    if (!take(what)) refuse("expected '" + std::string(what) + "'");
  }
  std::string name(bool is_label) {
    std::size_t size = 0;
    for (; size < line_.size(); ++size) {
      const char c = line_[size];
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      if (!is_letter && !(c >= '0' && c <= '9' && size > 0) && !(c == ':' && !is_label)) break;
    }
    if (size == 0) refuse("expected a name");
    const std::string taken(line_.substr(0, size));
    line_.remove_prefix(size);
    return taken;
  }
  /// Of one metric, all lines stand together.
  void begin(const std::string& metric) {
    if (metric == current_) return;
    if (!ended_.insert(current_ = metric).second)
      refuse("the lines of a metric do not stand together");
  }
  void help() {
    begin(name(false));
    if (!helped_.insert(current_).second) refuse("a second HELP");
  }
  void type() {
    const std::string metric = name(false);
    begin(metric);
    expect(" ");
    if (line_ != "counter" && line_ != "gauge") refuse("an unknown type");
    const bool is_total = metric.ends_with("_total");
    if (is_total != (line_ == "counter")) refuse("only counters end in _total");
    if (!found_.types.emplace(metric, line_).second) refuse("a second TYPE");
  }
  std::string label_value() {
    std::string value;
    for (expect("\""); !take("\"");) {
      if (line_.empty()) refuse("a label's value does not end");
      if (take("\\\\"))
        value += '\\';
      else if (take("\\\""))
        value += '"';
      else if (take("\\n"))
        value += '\n';
      else if (line_.front() == '\\')
        refuse("an unknown escape");
      else
        value += line_.front(), line_.remove_prefix(1);
    }
    return value;
  }
  void sample() {
    const std::string metric = name(false);
    begin(metric);
    if (!found_.types.contains(metric)) refuse("a sample before its TYPE");
    Labels labels;
    for (expect("{"); !take("}");) {
      if (!labels.empty()) expect(",");
      const std::string label = name(true);
      expect("=");
      if (!labels.emplace(label, label_value()).second) refuse("a label twice");
    }
    expect(" ");
    double number = 0;
    if (line_ == "NaN") {
      number = std::nan("");
    } else if (line_ == "+Inf" || line_ == "-Inf") {
      number = (line_ == "+Inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
    } else {
      const std::string digits(line_);
      char* end = nullptr;
      number = std::strtod(digits.c_str(), &end);
      if (digits.empty() || *end != '\0' ||
          digits.find_first_not_of("0123456789+-.e") != digits.npos)
        refuse("no number");
    }
    if (!found_.samples.emplace(std::pair(metric, labels), number).second) refuse("a sample twice");
  }

  std::string_view rest_, line_;
  std::string current_;
  std::set<std::string> ended_, helped_;
  Metrics found_;
};

Metrics read(const std::string& text) { return Reader(text).read(); }

}  // namespace

TEST_CASE("PrometheusText: the text is of the format, whatever the figures' names and values") {
  FakeTraining training;
  training.times = {{.compute = 1.5, .collective = 0.25}, {.compute = 1, .collective = 0.75}};
  ls::Logs logs;
  logs.set("loss", 0.1);
  logs.set("val_loss", std::nan(""));
  logs.set("up", std::numeric_limits<double>::infinity());
  logs.set("down", -std::numeric_limits<double>::infinity());
  logs.set("tiny", 5e-324);
  logs.set("a \"name\" with \\ and } = ,", 1e300);
  logs.set("größe", -0.5);
  logs.set("two\nlines\tand a tab", 2);
  const Metrics metrics = read(PrometheusText().make(training, logs, true));
  const auto figure = [&](const std::string& name) {
    return metrics.at("lockstep_figure", {{"worker", "0"}, {"name", name}});
  };
  CHECK(figure("loss") == 0.1);
  CHECK(std::isnan(figure("val_loss")));
  CHECK(figure("up") == std::numeric_limits<double>::infinity());
  CHECK(figure("down") == -std::numeric_limits<double>::infinity());
  CHECK(figure("tiny") == 5e-324);
  CHECK(figure("a \"name\" with \\ and } = ,") == 1e300);
  CHECK(figure("größe") == -0.5);
  CHECK(figure("two?lines?and a tab") == 2);
  CHECK(metrics.at("lockstep_compute_seconds", {{"rank", "0"}}) == 1.5);
  CHECK(metrics.at("lockstep_compute_seconds", {{"rank", "1"}}) == 1);
  CHECK(metrics.at("lockstep_wait_seconds", {{"rank", "1"}}) == 0.75);
}

TEST_CASE("PrometheusText: where there are no figures and no times, they are left out") {
  FakeTraining training;
  training.chief = false;  // worker 1
  const Metrics metrics = read(PrometheusText().make(training, {}, false));
  for (const char* const name :
       {"lockstep_figure", "lockstep_compute_seconds", "lockstep_wait_seconds"})
    CHECK_FALSE(metrics.types.contains(name));
  CHECK(metrics.at("lockstep_workers", {{"worker", "1"}}) == 2);
}

TEST_CASE("PrometheusText: updates, epoch, failures, bytes, and whether fit runs") {
  FakeTraining training;
  training.updates = 5'000'000'000;
  PrometheusText text;
  text.begin();
  text.begin_epoch(7);
  const ls::Traffic before = ls::traffic();
  ls::detail::count_traffic(100, 50);
  text.count_failure();
  text.count_failure();
  const Metrics metrics = read(text.make(training, {}, true));
  CHECK(metrics.at("lockstep_training") == 1);
  CHECK(metrics.at("lockstep_updates_total") == 5e9);
  CHECK(metrics.at("lockstep_epoch") == 7);
  CHECK(metrics.at("lockstep_failures_total") == 2);
  CHECK(metrics.at("lockstep_sent_bytes_total") == static_cast<double>(before.sent + 100));
  CHECK(metrics.at("lockstep_received_bytes_total") == static_cast<double>(before.received + 50));
  const double now = static_cast<double>(std::time(nullptr));
  CHECK(metrics.at("lockstep_heartbeat_seconds") == doctest::Approx(now).epsilon(60 / now));
  text.begin();  // another fit
  const Metrics next = read(text.make(training, {}, false));
  CHECK(next.at("lockstep_training") == 0);
  CHECK(next.at("lockstep_failures_total") == 2);
}

TEST_CASE("PrometheusText: the time of a step is the mean since the last text that had one") {
  FakeTraining training;
  PrometheusText text;
  const auto begin = PrometheusText::Clock::now();
  text.begin();
  for (int step = 0; step < 4; ++step) {
    std::this_thread::sleep_for(10ms);
    text.count_step();
  }
  const double mean = read(text.make(training, {}, true)).at("lockstep_step_seconds");
  const std::chrono::duration<double> passed = PrometheusText::Clock::now() - begin;
  CHECK(mean >= 0.010);
  CHECK(mean <= passed.count() / 4);
  CHECK(text.since() > begin);
  std::this_thread::sleep_for(5ms);  // a text without a step, as in a validation: the mean stays
  CHECK(read(text.make(training, {}, true)).at("lockstep_step_seconds") == mean);
  // Nor does what is done between two epochs count.
  text.count_step();
  std::this_thread::sleep_for(200ms);
  text.begin_epoch(1);
  text.count_step();
  const double later = read(text.make(training, {}, true)).at("lockstep_step_seconds");
  const std::chrono::duration<double> in_all = PrometheusText::Clock::now() - begin;
  CHECK(2 * later <= in_all.count() - 0.2);
  text.begin();
  CHECK(read(text.make(training, {}, true)).at("lockstep_step_seconds") == 0);
}

using lockstep_test::CapturedStderr;
using lockstep_test::contains;
using lockstep_test::file_text;
using lockstep_test::TemporaryFolder;

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
