#pragma once

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/callbacks/metrics_server.hpp"
#include "lockstep/callbacks/prometheus_port.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

struct PrometheusPort::Shown {
  std::mutex mutex{};
  std::string text{};
  std::atomic<Clock::rep> last_step{0};
  std::atomic<bool> is_training{false};
};

LOCKSTEP_INLINE PrometheusPort::PrometheusPort(PrometheusPortOptions options)
    : options_(std::move(options)), shown_(std::make_shared<Shown>()) {
  const char* const port = std::getenv("LOCKSTEP_METRICS_PORT");
  const bool by_variable = !options_.port && port != nullptr && *port != '\0';
  if (by_variable) {
    const std::string_view text(port);
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) number = -1;
    options_.port = number;
  }
  if (options_.port && (*options_.port < 0 || *options_.port > 65535))
    throw ConfigurationError(
        concat({"PrometheusPort: ", by_variable ? "LOCKSTEP_METRICS_PORT" : "the port",
                " must be 0 (any) to 65535, got ",
                by_variable ? concat({"'", printable(port, 40), "'"}) : concat({*options_.port})}));
  if (options_.stale_after.count() <= 0)
    throw ConfigurationError(concat({"PrometheusPort: stale_after must be at least 1 ms, got ",
                                     options_.stale_after.count(), " ms"}));
  const char* const address = std::getenv("LOCKSTEP_METRICS_ADDRESS");
  if (options_.address.empty())
    options_.address = address != nullptr && *address != '\0' ? address : "127.0.0.1";
}

LOCKSTEP_INLINE int PrometheusPort::port() const noexcept { return server_ ? server_->port() : 0; }

LOCKSTEP_INLINE void PrometheusPort::on_train_begin(Training& training) {
  if (!options_.port) return;
  text_.begin();
  note_step();
  show(training, {}, true);
  if (std::exchange(has_tried_, true)) return;
  const auto metrics = [shown = shown_] {
    const std::lock_guard lock(shown->mutex);
    return shown->text;
  };
  const auto ailment = [shown = shown_, limit = options_.stale_after] {
    const Clock::duration time =
        Clock::now().time_since_epoch() - Clock::duration(shown->last_step);
    if (!shown->is_training || time <= limit) return std::string();
    return concat(
        {"no step for ", std::chrono::duration_cast<std::chrono::seconds>(time).count(), " s"});
  };
  // Other programs may have some of them; but a worker that is alone is looked for at this port.
  const int ports = training.num_workers() > 1 ? training.num_workers() + 8 : 1;
  try {
    server_ = std::make_shared<detail::MetricsServer>(
        options_.address, *options_.port, ports, detail::MetricsServer::Pages{metrics, ailment});
    const bool is_v6 = options_.address.find(':') != std::string::npos;
    if (training.is_chief())
      log_line(concat({"metrics of worker ", training.worker_index(), ": http://", is_v6 ? "[" : "",
                       options_.address, is_v6 ? "]" : "", ":", port(), "/metrics"}));
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(concat({"PrometheusPort: ", error.what()}));
  } catch (const Error& error) {
    log_line(concat({"warning: PrometheusPort: worker ", training.worker_index(), " ", error.what(),
                     "; training goes on without it"}));
  }
}

LOCKSTEP_INLINE void PrometheusPort::on_epoch_begin(Training&, int epoch) {
  text_.begin_epoch(epoch);
  note_step();
}

LOCKSTEP_INLINE void PrometheusPort::on_train_batch_end(Training& training, std::int64_t,
                                                        Logs& logs) {
  text_.count_step();
  note_step();
  constexpr std::chrono::milliseconds interval(100);
  if (server_ && Clock::now() - text_.since() >= interval) show(training, logs, true);
}

LOCKSTEP_INLINE void PrometheusPort::on_test_batch_end(Training&, std::int64_t, Logs&) {
  note_step();
}

LOCKSTEP_INLINE void PrometheusPort::on_epoch_end(Training& training, int, Logs& logs) {
  note_step();
  if (server_) show(training, logs, true);
}

LOCKSTEP_INLINE void PrometheusPort::on_train_end(Training& training, Logs& logs) {
  if (server_) show(training, logs, false);
}

LOCKSTEP_INLINE void PrometheusPort::on_train_abort(Training& training) {
  text_.count_failure();
  if (server_) show(training, {}, false);
}

LOCKSTEP_INLINE void PrometheusPort::show(const Training& training, const Logs& logs,
                                          bool is_training) {
  std::string text = text_.make(training, logs, is_training);
  const std::lock_guard lock(shown_->mutex);
  shown_->text = std::move(text);
  shown_->is_training = is_training;
}

LOCKSTEP_INLINE void PrometheusPort::note_step() noexcept {
  shown_->last_step = Clock::now().time_since_epoch().count();
}

}  // namespace lockstep::inline LOCKSTEP_ABI
