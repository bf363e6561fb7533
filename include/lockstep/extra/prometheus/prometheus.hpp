// Metrics of a training in the text format of Prometheus: PrometheusFile, PrometheusPort.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/callbacks/concepts.hpp"
#include "lockstep/callbacks/training.hpp"
#include "lockstep/checkpoint/file.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/logs.hpp"
#include "lockstep/core/resource_limits.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/core/traffic.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/listener.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A number in Prometheus's text format.
[[nodiscard, gnu::cold]] inline std::string prometheus_number(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  return concat({number});
}

/// A label's value: its escapes are those of JSON for what a name may hold, but for other control
/// characters.
[[nodiscard, gnu::cold]] inline std::string prometheus_label(std::string_view text) {
  return json_text(printable(text, 200));
}

/// What PrometheusFile writes and PrometheusPort answers:
///
/// | metric | |
/// |---|---|
/// | lockstep_training | 1 while fit runs, 0 after its end |
/// | lockstep_heartbeat_seconds | seconds since 1970 at this text: old where the worker hangs |
/// | lockstep_updates_total | updates of the optimizer |
/// | lockstep_epoch | from 0 |
/// | lockstep_step_seconds | of a step of an epoch, on average since the last text that had one |
/// | lockstep_figure{name="loss"} | each of the logs, as of the epoch so far |
/// | lockstep_compute_seconds{rank="0"}, lockstep_wait_seconds{rank="0"} | of the last epoch |
/// | lockstep_sent_bytes_total, lockstep_received_bytes_total | see Traffic |
/// | lockstep_workers | |
/// | lockstep_failures_total | fits that an exception has ended, with this callback |
///
/// All but those by rank have the label worker, this worker's number.
class PrometheusText {
 public:
  using Clock = std::chrono::steady_clock;

  void begin() noexcept {
    steps_ = 0;
    in_steps_ = {};
    step_seconds_ = 0;
    since_ = step_began_ = Clock::now();
  }
  void begin_epoch(int epoch) noexcept {
    epoch_ = epoch;
    step_began_ = Clock::now();
  }
  void count_step() noexcept {
    ++steps_;
    const auto now = Clock::now();
    in_steps_ += now - std::exchange(step_began_, now);
  }
  void count_failure() noexcept { ++failures_; }

  /// When the last text was made.
  [[nodiscard]] Clock::time_point since() const noexcept { return since_; }
  [[nodiscard]] std::string make(const Training& training, const Logs& logs, bool is_training) {
    const auto now = Clock::now();
    if (steps_ > 0) {
      step_seconds_ =
          std::chrono::duration<double>(in_steps_).count() / static_cast<double>(steps_);
      steps_ = 0;
      in_steps_ = {};
    }
    since_ = now;
    std::string content;
    const auto declare = [&](std::string_view name, std::string_view type, std::string_view help) {
      content += concat(
          {"# HELP lockstep_", name, " ", help, "\n# TYPE lockstep_", name, " ", type, "\n"});
    };
    const std::string worker = concat({"worker=\"", training.worker_index(), "\""});
    const auto add = [&](std::string_view name, const std::string& labels, double value) {
      content += concat({"lockstep_", name, "{", labels, "} ", prometheus_number(value), "\n"});
    };
    const auto number = [&](std::string_view name, std::string_view type, std::string_view help,
                            double value) {
      declare(name, type, help);
      add(name, worker, value);
    };
    const double time =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    number("training", "gauge", "1 while fit runs.", is_training ? 1 : 0);
    number("heartbeat_seconds", "gauge", "Unix time of this text.", std::floor(time * 1000) / 1000);
    number("updates_total", "counter", "Updates of the optimizer.",
           static_cast<double>(training.iterations()));
    number("epoch", "gauge", "The epoch, from 0.", epoch_);
    number("step_seconds", "gauge", "Time of a step, on average since the last text.",
           step_seconds_);
    number("workers", "gauge", "Workers of the cluster.", training.num_workers());
    number("failures_total", "counter", "Fits that an exception has ended.", failures_);
    const Traffic bytes = traffic();
    number("sent_bytes_total", "counter", "Bytes sent to other workers.",
           static_cast<double>(bytes.sent));
    number("received_bytes_total", "counter", "Bytes received from other workers.",
           static_cast<double>(bytes.received));
    if (!logs.empty()) {
      declare("figure", "gauge", "Loss and metrics of the epoch so far.");
      for (const auto& [name, value] : logs)
        add("figure", concat({worker, ",name=", prometheus_label(name)}), value);
    }
    const auto ranks = training.rank_times();
    const auto by_rank = [&](std::string_view name, std::string_view help,
                             double RankTime::*member) {
      if (ranks.empty()) return;
      declare(name, "gauge", help);
      for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        add(name, concat({"rank=\"", rank, "\""}), ranks[rank].*member);
    };
    by_rank("compute_seconds", "Time outside of reductions in the last epoch.", &RankTime::compute);
    by_rank("wait_seconds", "Time in reductions in the last epoch.", &RankTime::collective);
    return content;
  }

 private:
  int epoch_ = 0;
  int failures_ = 0;
  std::int64_t steps_ = 0;  // since the last text
  Clock::duration in_steps_{};
  Clock::time_point step_began_{};
  double step_seconds_ = 0;
  Clock::time_point since_{};
};

}}}  // namespace lockstep::detail

namespace lockstep { inline namespace LOCKSTEP_ABI {

struct PrometheusFileOptions {
  /// "{rank}" in it stands for the worker's number, and each worker writes a file; without it, the
  /// chief alone writes.
  std::string filename;
  std::chrono::milliseconds interval = std::chrono::seconds(5);  ///< between two writes, at least
};

/// Keeps a file in Prometheus's text format, for the textfile collector of its node_exporter, say.
/// It is replaced as a whole at most once in an interval, at the end of a step, and at the end of
/// each epoch and of fit. See detail::PrometheusText for what is in it. A file that cannot be
/// written is a warning, once in a fit: training does not end for it.
///
/// Serves one fit at a time; its hooks run on the thread of the first replica.
/// Include <lockstep/extra/prometheus.hpp>.
/// Use: `PrometheusFile({.filename = "lockstep.prom"})`. Keras: none.
class PrometheusFile {
 public:
  static constexpr bool stops_training = false;

  /// Throws ConfigurationError without a filename, and for a negative interval.
  explicit PrometheusFile(PrometheusFileOptions options) : options_(std::move(options)) {
    if (options_.filename.empty())
      throw ConfigurationError(
          "PrometheusFile: the filename is empty; expected one such as metrics/{rank}.prom");
    if (options_.interval.count() < 0)
      throw ConfigurationError(concat({"PrometheusFile: the interval must be 0 ms or more, got ",
                                       options_.interval.count(), " ms"}));
  }

  void on_train_begin(Training& training) {
    constexpr std::string_view rank = "{rank}";
    path_ = options_.filename;
    if (const auto at = path_.find(rank); at != std::string::npos)
      path_.replace(at, rank.size(), concat({training.worker_index()}));
    else if (!training.is_chief())
      path_.clear();
    has_warned_ = false;
    text_.begin();
    write(training, {}, true);
  }
  void on_epoch_begin(Training&, int epoch) { text_.begin_epoch(epoch); }
  void on_train_batch_end(Training& training, std::int64_t, Logs& logs) {
    text_.count_step();
    if (!path_.empty() && detail::PrometheusText::Clock::now() - text_.since() >= options_.interval)
      write(training, logs, true);
  }
  void on_epoch_end(Training& training, int, Logs& logs) { write(training, logs, true); }
  void on_train_end(Training& training, Logs& logs) { write(training, logs, false); }
  void on_train_abort(Training& training) {
    text_.count_failure();
    write(training, {}, false);
    path_.clear();  // where training goes on, the next chief writes there
  }

 private:
  void write(const Training& training, const Logs& logs, bool is_training) {
    if (path_.empty()) return;
    try {
      const std::string content = text_.make(training, logs, is_training);
      write_file_atomically(path_, std::as_bytes(std::span(content)));
    } catch (const std::exception& error) {
      if (!std::exchange(has_warned_, true))
        log_warning(concat({"PrometheusFile: ", error.what(), "; training goes on without it"}));
    }
  }

  PrometheusFileOptions options_;
  std::string path_;  // empty: this worker writes nothing
  bool has_warned_ = false;
  detail::PrometheusText text_;
};

namespace detail {

/// Answers GET (and HEAD) of /metrics and /healthz over HTTP/1.0, one request a connection, on a
/// background thread. It holds at most 64 connections, each for at most five seconds, and reads at
/// most 4 KiB of each. There is always room for one more: the oldest that has asked nothing goes,
/// or else the oldest.
class MetricsServer {
 public:
  static constexpr int most_connections = 64;
  static constexpr std::chrono::milliseconds time_limit{5000};
  static constexpr std::size_t longest_request = 4096;

  /// What is shown. Called by the server's thread.
  struct Pages {
    std::function<std::string()> metrics;
    std::function<std::string()> ailment;  ///< of /healthz; empty: all is well
  };

  /// Listens on an IP address, and on the first of `ports` ports from `port` on that is free; 0:
  /// any free port. Throws Error when there is none, and ConfigurationError when the address is no
  /// IP address.
  MetricsServer(const std::string& address, int port, int ports, Pages pages);
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;
  ~MetricsServer();

  [[nodiscard]] int port() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct MetricsServer::Impl {
  using Clock = std::chrono::steady_clock;

  /// A request that is read, then an answer that is written, then the wait for the client's end.
  struct Connection {
    Descriptor socket;
    Clock::time_point deadline;
    std::string request{};
    std::string answer{};
    std::size_t sent = 0;

    [[nodiscard]] bool answers() const noexcept { return sent < answer.size(); }
  };

  explicit Impl(Pages shown) : pages(std::move(shown)) {}

  void listen(const std::string& address, int first, int ports) {
    if (!ip_name(address, first))
      throw ConfigurationError(
          concat({"'", address, "' is no IP address; expected one such as 127.0.0.1, or 0.0.0.0 ",
                  "for all interfaces"}));
    int error = EADDRINUSE;
    for (int i = 0; i < ports && error == EADDRINUSE && first + i <= 65535; ++i) {
      Descriptor socket = listen_at(address, first + i);
      error = socket.is_open() ? 0 : errno;
      if (error == 0) listener.emplace(std::move(socket));
    }
    if (error != 0)
      throw Error(concat({"cannot listen on ", address, ", port ", first,
                          ports > 1 ? concat({" to ", std::min(65535, first + ports - 1)}) : "",
                          ": ", system_error_text(error)}));
  }

  // --- the thread --------------------------------------------------------------------------------

  void serve() {
    std::vector<pollfd> watched;
    for (;;) {
      watched.assign(1, {wake.descriptor(), POLLIN, 0});
      for (const Connection& c : connections)
        watched.push_back({c.socket.get(), static_cast<short>(c.answers() ? POLLOUT : POLLIN), 0});
      watched.push_back({listener->descriptor(), POLLIN, 0});
      ::poll(watched.data(), watched.size(), time_left());
      if (watched[0].revents != 0) return;
      for (std::size_t i = connections.size(); i-- > 0;)
        if (watched[1 + i].revents != 0 && !advance(connections[i]))
          connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i));
      const auto now = Clock::now();
      std::erase_if(connections, [now](const Connection& c) { return now >= c.deadline; });
      if (watched.back().revents != 0) accept();
    }
  }

  [[nodiscard]] int time_left() const {
    auto first = Clock::time_point::max();
    for (const Connection& c : connections) first = std::min(first, c.deadline);
    return time_until(first);
  }

  void accept() {
    if (connections.size() >= static_cast<std::size_t>(most_connections)) {
      const auto silent = std::find_if(connections.begin(), connections.end(),
                                       [](const Connection& c) { return c.request.empty(); });
      connections.erase(silent != connections.end() ? silent : connections.begin());
    }
    SocketName caller{};
    if (Descriptor socket = listener->accept(caller); socket.is_open())
      connections.push_back({std::move(socket), Clock::now() + time_limit});
  }

  // Returns false at the end of a connection.
  bool advance(Connection& c) {
    if (c.answers()) return write(c);
    std::array<char, 1024> chunk;
    const ssize_t n = ::recv(c.socket.get(), chunk.data(), chunk.size(), 0);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    if (!c.answer.empty()) return true;  // more than a request, which is not read
    c.request.append(chunk.data(), static_cast<std::size_t>(n));
    const bool is_whole = c.request.find("\r\n\r\n") != std::string::npos ||
                          c.request.find("\n\n") != std::string::npos;
    if (!is_whole && c.request.size() < longest_request) return true;
    c.answer = is_whole ? answer_to(c.request)
                        : page("431 Request Header Fields Too Large", "the request is too long\n");
    return write(c);
  }

  static bool write(Connection& c) {
    const ssize_t n =
        ::send(c.socket.get(), c.answer.data() + c.sent, c.answer.size() - c.sent, no_signal);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    c.sent += static_cast<std::size_t>(n);
    if (!c.answers()) ::shutdown(c.socket.get(), SHUT_WR);
    return true;
  }

  static std::string page(std::string_view status, std::string_view content,
                          std::string_view more = {}) {
    return concat({"HTTP/1.0 ", status, "\r\nContent-Type: text/plain; version=0.0.4; ",
                   "charset=utf-8\r\nContent-Length: ", content.size(),
                   "\r\nCache-Control: no-store\r\nConnection: close\r\n", more, "\r\n", content});
  }

  [[nodiscard]] std::string answer_to(std::string_view request) const {
    const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
    const std::size_t first = line.find(' '), last = line.rfind(' ');
    if (first == line.npos || last == first || !line.substr(last + 1).starts_with("HTTP/"))
      return page("400 Bad Request", "this is no request of HTTP\n");
    const std::string_view method = line.substr(0, first);
    std::string_view path = line.substr(first + 1, last - first - 1);
    path = path.substr(0, path.find('?'));
    if (method != "GET" && method != "HEAD")
      return page("405 Method Not Allowed", "only GET and HEAD are served\n",
                  "Allow: GET, HEAD\r\n");
    std::string text;
    try {
      if (path == "/metrics") {
        text = page("200 OK", pages.metrics());
      } else if (path == "/healthz") {
        const std::string ailment = pages.ailment();
        text = ailment.empty() ? page("200 OK", "ok\n")
                               : page("503 Service Unavailable", concat({ailment, "\n"}));
      } else {
        text = page("404 Not Found", "there are /metrics and /healthz\n");
      }
    } catch (const std::exception& error) {  // out of memory, for example
      text = page("500 Internal Server Error", concat({error.what(), "\n"}));
    }
    if (method == "HEAD") text.resize(text.find("\r\n\r\n") + 4);
    return text;
  }

  const Pages pages;
  WakePipe wake;
  std::optional<ListeningSocket> listener;
  std::vector<Connection> connections;
  std::thread thread;
};

inline MetricsServer::MetricsServer(const std::string& address, int port, int ports, Pages pages)
    : impl_(std::make_unique<Impl>(std::move(pages))) {
  impl_->listen(address, port, port == 0 ? 1 : ports);
  const SignalMask mask;
  impl_->thread = start_thread("metrics", [impl = impl_.get()] { impl->serve(); });
}

inline MetricsServer::~MetricsServer() {
  impl_->wake.wake();
  impl_->thread.join();
}

inline int MetricsServer::port() const noexcept { return impl_->listener->port(); }

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
/// its own for it, which silent connections do not keep from answering (see detail::MetricsServer).
/// A port that cannot be had is a warning: training does not end for it. An option or a variable
/// that makes no sense is a ConfigurationError.
///
/// Serves one fit at a time; its hooks run on the thread of the first replica.
/// Include <lockstep/extra/prometheus.hpp>.
/// Use: `PrometheusPort({.port = 9400})`. Keras: none.
class PrometheusPort {
 public:
  static constexpr bool stops_training = false;

  explicit PrometheusPort(PrometheusPortOptions options = {})
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
      throw ConfigurationError(concat(
          {"PrometheusPort: ", by_variable ? "LOCKSTEP_METRICS_PORT" : "the port",
           " must be 0 (any) to 65535, got ",
           by_variable ? concat({"'", printable(port, 40), "'"}) : concat({*options_.port})}));
    if (options_.stale_after.count() <= 0)
      throw ConfigurationError(concat({"PrometheusPort: stale_after must be at least 1 ms, got ",
                                       options_.stale_after.count(), " ms"}));
    const char* const address = std::getenv("LOCKSTEP_METRICS_ADDRESS");
    if (options_.address.empty())
      options_.address = address != nullptr && *address != '\0' ? address : "127.0.0.1";
  }
  PrometheusPort(PrometheusPort&&) = default;
  PrometheusPort& operator=(PrometheusPort&&) = default;

  /// Where this worker listens; 0: it does not.
  [[nodiscard]] int port() const noexcept { return server_ ? server_->port() : 0; }

  void on_train_begin(Training& training) {
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
        log_line(
            concat({"metrics of worker ", training.worker_index(), ": http://", is_v6 ? "[" : "",
                    options_.address, is_v6 ? "]" : "", ":", port(), "/metrics"}));
    } catch (const ConfigurationError& error) {
      throw ConfigurationError(concat({"PrometheusPort: ", error.what()}));
    } catch (const Error& error) {
      log_warning(concat({"PrometheusPort: worker ", training.worker_index(), " ", error.what(),
                          "; training goes on without it"}));
    }
  }
  void on_epoch_begin(Training&, int epoch) {
    text_.begin_epoch(epoch);
    note_step();
  }
  void on_train_batch_end(Training& training, std::int64_t, Logs& logs) {
    text_.count_step();
    note_step();
    constexpr std::chrono::milliseconds interval(100);
    if (server_ && Clock::now() - text_.since() >= interval) show(training, logs, true);
  }
  void on_test_batch_end(Training&, std::int64_t, Logs&) { note_step(); }
  void on_epoch_end(Training& training, int, Logs& logs) {
    note_step();
    if (server_) show(training, logs, true);
  }
  void on_train_end(Training& training, Logs& logs) {
    if (server_) show(training, logs, false);
  }
  void on_train_abort(Training& training) {
    text_.count_failure();
    if (server_) show(training, {}, false);
  }

 private:
  using Clock = detail::PrometheusText::Clock;
  struct Shown {
    std::mutex mutex{};
    std::string text{};
    std::atomic<Clock::rep> last_step{0};
    std::atomic<bool> is_training{false};
  };

  void show(const Training& training, const Logs& logs, bool is_training) {
    std::string text = text_.make(training, logs, is_training);
    const std::lock_guard lock(shown_->mutex);
    shown_->text = std::move(text);
    shown_->is_training = is_training;
  }
  void note_step() noexcept { shown_->last_step = Clock::now().time_since_epoch().count(); }

  PrometheusPortOptions options_;
  bool has_tried_ = false;
  detail::PrometheusText text_;
  std::shared_ptr<Shown> shown_;  // what the server's thread reads
  std::shared_ptr<detail::MetricsServer> server_;
};

}}  // namespace lockstep
