// PrometheusPort: a running fit, for monitoring over HTTP.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/prometheus_text.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/logs.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

namespace detail {
class MetricsServer;
}  // namespace detail

struct PrometheusPortOptions {
  /// The first port that is tried; of several workers each takes the first one from here on that is
  /// free, and looks at eight more ports than there are workers. 0: any free port. Default: that of
  /// the environment variable LOCKSTEP_METRICS_PORT; without it, nothing listens.
  std::optional<int> port = std::nullopt;
  /// The IP address to listen on; "0.0.0.0" or "::": all interfaces. Anyone who reaches the port
  /// can read the figures. Default: that of LOCKSTEP_METRICS_ADDRESS, or the loopback interface.
  std::string address = {};
  /// /healthz says that this worker is ill if training has made no step, and validation none, for
  /// longer than this.
  std::chrono::milliseconds stale_after = std::chrono::minutes(10);
};

/// From its first fit to its end, this worker answers over HTTP:
///
/// - GET /metrics: the figures of the fit in Prometheus's text format, at most 100 ms old; see
///   detail::PrometheusText for their names.
/// - GET /healthz: 200 and "ok", or 503 and a sentence when fit is stuck. After a fit: 200.
///
/// The chief says on stderr where it listens; port() is for programs. Each worker has a thread of
/// its own for it, with at most eight connections (see detail::MetricsServer). A port that cannot
/// be had is a warning: training does not end for it. An option or a variable that makes no sense
/// is a ConfigurationError.
///
/// Serves one fit at a time; its hooks run on the thread of the first replica.
class PrometheusPort {
 public:
  static constexpr bool stops_training = false;

  explicit PrometheusPort(PrometheusPortOptions options = {});
  PrometheusPort(PrometheusPort&&) = default;
  PrometheusPort& operator=(PrometheusPort&&) = default;

  /// Where this worker listens; 0: it does not.
  [[nodiscard]] int port() const noexcept;

  void on_train_begin(Training& training);
  void on_epoch_begin(Training& training, int epoch);
  void on_train_batch_end(Training& training, std::int64_t batch, Logs& logs);
  void on_test_batch_end(Training& training, std::int64_t batch, Logs& logs);
  void on_epoch_end(Training& training, int epoch, Logs& logs);
  void on_train_end(Training& training, Logs& logs);
  void on_train_abort(Training& training);

 private:
  using Clock = detail::PrometheusText::Clock;
  struct Shown;

  void show(const Training& training, const Logs& logs, bool is_training);
  void note_step() noexcept;

  PrometheusPortOptions options_;
  bool has_tried_ = false;
  detail::PrometheusText text_;
  std::shared_ptr<Shown> shown_;  // what the server's thread reads
  std::shared_ptr<detail::MetricsServer> server_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/prometheus_port.ipp"
#endif
