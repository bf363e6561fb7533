// A worker's connections to the others, and its replicas, whatever the collective between workers.
#pragma once

#include <functional>
#include <string_view>

#include "lockstep/collectives/options.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

class ReplicaThreads;
struct Rendezvous;

namespace detail {

/// Made empty. A worker that is alone makes replicas without connections.
class WorkerConnections {
 public:
  WorkerConnections() = default;
  WorkerConnections(const WorkerConnections&) = delete;
  WorkerConnections& operator=(const WorkerConnections&) = delete;
  virtual ~WorkerConnections() = default;

  virtual void connect(const Rendezvous& rendezvous, const CommunicationOptions& options) = 0;
  /// Makes one replica on each thread. All workers must call it.
  virtual void make_replicas(ReplicaThreads& threads, int threads_on_host,
                             const CommunicationOptions& options) = 0;
  virtual void disconnect() noexcept = 0;

  [[nodiscard]] virtual bool has_peers() const noexcept = 0;
  [[nodiscard]] virtual bool has_replicas() const noexcept = 0;

  /// The replica's address; the code that has chosen the policy knows its type.
  [[nodiscard]] virtual void* replica(int i) noexcept = 0;
  /// Replica i cannot go on.
  virtual void abort(int i, std::string_view what, ExitCode code) noexcept = 0;
  /// Makes the replicas usable again after a failure. None of them may be at work.
  virtual void reset() noexcept = 0;
  /// That replica makes no more calls until assemble().
  virtual void depart(int i) noexcept = 0;
  virtual void assemble() noexcept = 0;

  // For those that have peers.

  /// The orderly end.
  virtual void close() = 0;
  /// What tells the others why this worker ends. It may outlive this object.
  using Tell = std::function<void(std::string_view reason, ExitCode code)>;
  [[nodiscard]] virtual Tell last_words() const = 0;
  virtual void abort_all(std::string_view reason) noexcept = 0;
};

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
