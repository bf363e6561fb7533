// ParameterClient: a worker's connections to all parameter servers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/parameter_server/connection.hpp"
#include "lockstep/parameter_server/detail/link.hpp"
#include "lockstep/parameter_server/options.hpp"
#include "lockstep/parameter_server/parameter_servers.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Every call waits for a server that is away, goes on when it is back, and says on stderr every 5
/// s for which server it waits. It throws CollectiveError (exit code 138), which names the server,
/// when one has not been heard of for startup_timeout, and ConfigurationError when a server refuses
/// this worker. One thread makes the calls; a thread of the client's own tells the servers
/// meanwhile that this worker lives.
class ParameterClient {
 public:
  ParameterClient(int rank, int workers, const std::vector<std::string>& servers,
                  const ParameterServerOptions& options, PsTrust trust);
  ParameterClient(const ParameterClient&) = delete;
  ParameterClient& operator=(const ParameterClient&) = delete;
  ~ParameterClient();

  [[nodiscard]] std::size_t servers() const noexcept { return links_.size(); }

  /// Waits until the chief has begun the fit. `signature`: the program's, and behind a null
  /// character what its fit was given.
  [[nodiscard]] PsBegun begin(std::uint64_t fit, std::string_view signature);
  void put(std::size_t server, std::span<const std::byte> place, std::span<const std::byte> state);
  void pull(std::size_t server, std::span<std::byte> state);
  /// One step with all servers at once: an exchange for each. `place`: where this rank goes on
  /// after it.
  void step(double learning_rate, bool stop_on_non_finite, std::span<const std::byte> place,
            std::span<const double> status, std::span<const PsExchange> exchanges);
  /// Returns when all workers that live have called it.
  void finish();
  /// Ends the connections: the servers go on without this worker until its next call.
  void hang_up() noexcept;
  /// This worker will begin no other fit.
  void say_goodbye() noexcept;

 private:
  using Clock = PsLink::Clock;

  void converse_with_all(std::string_view operation, FunctionRef<void(PsLink&)> send,
                         FunctionRef<void(PsLink&, const PsConnection::Head&)> receive);
  void speak();

  const ParameterServerOptions& options_;
  const PsCaller caller_;
  std::vector<std::unique_ptr<PsLink>> links_;
  std::uint64_t fit_ = 0;  // the last one that was begun
  std::uint64_t steps_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread speaker_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED) || defined(LOCKSTEP_COMPILED_SOURCE)
#include "lockstep/parameter_server/client.ipp"
#endif
