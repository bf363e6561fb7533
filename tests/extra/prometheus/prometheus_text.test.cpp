#include "lockstep/extra/prometheus/prometheus.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "callbacks/fake_training.hpp"
#include "lockstep/core/traffic.hpp"

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
