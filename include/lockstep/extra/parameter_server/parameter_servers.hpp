// ParameterServers: a process's part in training with parameter servers, as fit sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

class ShardKeeper;

/// What the servers say to a worker that begins a fit.
struct PsBegun {
  bool gives_state = false;        ///< the chief: put() all shards, and the fit begins
  bool is_over = false;            ///< others have finished this fit, and begun a later one
  std::vector<std::byte> place{};  ///< where this rank goes on; empty: at the beginning
};

/// What goes to one server in a step, and what comes back.
struct PsExchange {
  std::span<const std::byte> gradients;
  std::span<std::byte> parameters;
  std::span<double> status;  ///< the reply to the status that all servers are sent
};

}  // namespace detail

/// On a worker it stands for all servers, on a server for the server itself. A strategy has one,
/// and hands it to the training loop, which thus needs no network. One thread at a time calls
/// members.
class ParameterServers {
 public:
  /// `rank`: this worker's among all; for a server -1, and `server` is its index.
  struct Place {
    int rank = 0;
    int workers = 1;
    int server = -1;
    std::vector<std::string> servers{};    ///< "host:port" of each
    std::vector<std::string> addresses{};  ///< of the workers, by which their launcher knows them
    bool in_rounds = false;                ///< max_staleness is 0
  };

  ParameterServers(const ParameterServers&) = delete;
  ParameterServers& operator=(const ParameterServers&) = delete;
  virtual ~ParameterServers() = default;

  [[nodiscard]] bool is_server() const noexcept { return place_.server >= 0; }
  [[nodiscard]] int server() const noexcept { return place_.server; }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(place_.servers.size()); }
  [[nodiscard]] int workers() const noexcept { return place_.workers; }
  [[nodiscard]] bool in_rounds() const noexcept { return place_.in_rounds; }

  // What a worker asks of the servers: see ParameterClient.

  [[nodiscard]] virtual detail::PsBegun begin(std::uint64_t fit, std::string_view signature) = 0;
  virtual void put(std::size_t server, std::span<const std::byte> place,
                   std::span<const std::byte> state) = 0;
  virtual void pull(std::size_t server, std::span<std::byte> state) = 0;
  virtual void step(double learning_rate, bool stop_on_non_finite, std::span<const std::byte> place,
                    std::span<const double> status,
                    std::span<const detail::PsExchange> exchanges) = 0;
  virtual void finish() = 0;
  /// After finish() and pull(): the chief's callbacks may have set other variables at the end of
  /// the fit, which it gives (else nothing). The others wait for that, and take them, or if they
  /// have set theirs (`wants`) what the server has. Returns whether `taken` has become that.
  [[nodiscard]] virtual bool settle(std::size_t server, bool wants,
                                    std::span<const std::byte> given,
                                    std::span<std::byte> taken) = 0;
  /// An exception has ended the fit: no other worker waits for this one until it begins a new fit.
  virtual void abandon() noexcept = 0;
  /// Of the chief: an error has ended the fit before begin(). The servers refuse those who wait.
  virtual void cannot_begin(std::string_view why) noexcept = 0;
  /// This worker will begin no other fit.
  virtual void say_goodbye() noexcept = 0;

  /// What a server does: see ParameterServer::serve.
  virtual void serve(detail::ShardKeeper& keeper) = 0;

  // What a worker's fit knows of itself.

  std::uint64_t fits = 0;  ///< begun by this process
  bool is_in_fit = false;  ///< until it has made its steps
  bool is_current = true;  ///< slots and counters of this worker are those of the servers
  std::vector<std::byte> next_place{};  ///< where training goes on after the step that is made next

 protected:
  explicit ParameterServers(Place given) : place_(std::move(given)) {}

  const Place place_;
};

}}  // namespace lockstep
