// A small server of two pages.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Answers GET (and HEAD) of /metrics and /healthz over HTTP/1.0, one request a connection, on a
/// thread of its own. It holds at most eight connections, each for at most five seconds, and reads
/// at most 4 KiB of each; what comes then waits in the system's queue.
class MetricsServer {
 public:
  static constexpr int most_connections = 8;
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/callbacks/metrics_server.ipp"
#endif
