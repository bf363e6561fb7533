// What a worker says while it waits for its peers, and when they do not come: see TcpStartup.
#pragma once

#include <asio/error.hpp>
#include <chrono>
#include <string>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/tcp/detail/connection.hpp"
#include "lockstep/collectives/tcp/detail/startup_context.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Reports every five seconds which peers are missing and why, and makes the errors.
class StartupReporting {
 public:
  /// `was_connected`: see Rendezvous.
  StartupReporting(StartupContext& context, bool was_connected)
      : context_(context), was_connected_(was_connected), timer_(context.io) {}

  void begin() {
    timer_.expires_after(report_interval);
    timer_.async_wait([this](asio::error_code) {
      if (stopped_) return;
      log_line(concat({context_.roster.names().shortly(context_.rank()), " waits since ",
                       static_cast<int>(context_.seconds()), " s for ",
                       context_.roster.describe_missing(TcpConnection::Clock::now()),
                       context_.incoming.problem(), context_.incoming.strangers()}));
      begin();
    });
  }
  void stop() {
    stopped_ = true;
    timer_.cancel();
  }

  [[nodiscard]] CollectiveError out_of_time() const {
    CollectiveFailure failure =
        context_.roster.timed_out(TcpConnection::Clock::now(), context_.options.startup_timeout);
    failure.reason += context_.incoming.problem() + context_.incoming.strangers();
    return failed(std::move(failure));
  }

  /// Another socket has had this worker's port all the time.
  [[noreturn]] void fail_to_listen() const {
    const std::string reason = concat(
        {context_.incoming.cannot_listen(), ", and has had it for all of the ",
         context_.options.startup_timeout.count(), " ms of CommunicationOptions::startup_timeout"});
    if (!was_connected_) throw ConfigurationError(reason);
    throw failed(context_.roster.failed(context_.rank(), reason));
  }

  [[nodiscard]] CollectiveError failed(CollectiveFailure failure) const {
    failure.operation = "start-up";
    failure.seconds = context_.seconds();
    return CollectiveError(std::move(failure));
  }

 private:
  StartupContext& context_;
  const bool was_connected_;
  TcpConnection::Timer timer_;
  bool stopped_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
