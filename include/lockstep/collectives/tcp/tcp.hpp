// The transport over TCP.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What a rank waits for that does not come over a transport.
class ExternalEvent {
 public:
  [[nodiscard]] virtual bool has_come() = 0;
  /// Returns when it has come, or after `most`, or earlier.
  virtual void sleep(std::chrono::milliseconds most) = 0;

 protected:
  ~ExternalEvent() = default;
};

namespace detail {

class HostPipe;

}  // namespace detail

/// A Transport over TCP. Between each pair of up to 8 ranks there is a connection for control, and
/// one or more (`options.connections`) for data. Beyond 8 ranks, only ranks whose distance around
/// the ring, either way, is a power of two are connected, which is all that Ring needs: each rank
/// then has about 2 log2(ranks) **partners**; transfer() between others is an error. Control has a
/// separate connection, so that a report never waits behind data which no rank reads. The end of a
/// process shows at once on the connections to its partners; these tell theirs, and so on, so that
/// all ranks know of it a few messages later, also when some of those on the way have failed
/// themselves.
///
/// Failure: each wait ends when a peer is lost, or when a rank reports a failure. Another thread,
/// which does nothing else, answers the others' questions: whether this rank lives, which rank
/// it waits for, and what it is doing (see ActivityBoard). A rank that does not answer for
/// `options.timeout` is lost: its process is stopped, or the network is cut. A rank that answers
/// may keep the others waiting until `options.progress_timeout`, in a slow callback for instance;
/// every 5 s they say on stderr which rank they wait for, and what it is doing (see
/// detail::WaitPolicy). The rank that notices a failure tells all others before it throws: all
/// ranks name the same rank and reason.
///
/// Start-up: each worker listens on its port (on the loopback interface when its address says so,
/// else on all interfaces: inside a container its address may be one that only the outside knows)
/// and connects to the partners of lower rank and to rank 0, in whatever order the workers start,
/// retrying until `options.startup_timeout`. For as long, it also retries to get its port if
/// another socket has it. Both sides compare what they must have in common. A stranger is turned
/// away and named, and learns nothing about the cluster unless it knows the list of addresses. A
/// process that claims a place in this cluster with a different configuration ends both sides with
/// a ConfigurationError if it still does so after 2 s and no process has come that fits; so do two
/// processes with the same place. With a secret (Rendezvous::secret), each side proves that it
/// knows it, and a process that cannot is turned away; what follows is neither encrypted nor
/// authenticated. With `options.tls`, all of this happens inside TLS, as does everything that
/// follows.
///
/// The worker listens on its port until close() or the end of the object (see
/// detail::ListeningPort); Rendezvous::port keeps it for longer. If the environment variable
/// LOCKSTEP_LISTEN_FD names a listening socket for the worker's port, that is used.
///
/// With `options.checksum`, messages carry a CRC-32C: bits that change on the way end the operation
/// on all ranks, with an error that names sender and receiver, before they are summed.
///
/// All calls come from one thread at a time, though not always the same (see Overlap); abort() from
/// any.
class Tcp {
 public:
  /// Connects to its peers. While some are missing, says every 5 s on stderr which and why; rank 0
  /// says when the cluster is ready. Throws ConfigurationError when workers do not fit together or
  /// the port cannot be used, CollectiveError when the time is over.
  [[nodiscard]] static Tcp connect(const Rendezvous& rendezvous,
                                   const CommunicationOptions& options);

  Tcp(Tcp&& other) noexcept;
  Tcp& operator=(Tcp&& other) noexcept;
  /// Closes the connections. Peers that are still at work see a lost rank.
  ~Tcp();

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// In messages: "worker 1".
  [[nodiscard]] std::string name(int rank) const;

  /// Names the operation that the next messages belong to, and starts its clock.
  void begin(Operation operation) noexcept;
  void transfer(int to, int from, Flow& flow);
  /// From now on, data to and from this peer goes through memory. The peer does the same at the
  /// same place.
  void attach(int peer, std::unique_ptr<detail::HostPipe> pipe);
  /// Waits for an event that depends on rank `peer`, with the deadline and the failures of a
  /// transfer.
  void await(int peer, ExternalEvent& event);
  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept;
  /// See Collective.
  [[nodiscard]] ActivityBoard& activity() noexcept;
  /// Tells all others of a failure that has just been noticed, and throws it (or an earlier one).
  [[noreturn]] void fail(CollectiveFailure failure);
  /// The call of the program that each rank is in, as the end of a sentence about ranks that are
  /// out of step; empty if no ActivityBoard shows one. Waits at most a second.
  [[nodiscard]] std::string calls();
  /// Throws when abort() was called or a failure is known.
  void check();

  /// The orderly end: returns when all ranks have called it, rank 0 last. A peer that is lost,
  /// silent for `options.timeout`, or alive but not there within `options.progress_timeout` is only
  /// named on stderr.
  void close() noexcept;

 private:
  struct Impl;
  explicit Tcp(std::unique_ptr<Impl> impl) noexcept;

  std::unique_ptr<Impl> impl_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/tcp/tcp.ipp"
#endif
