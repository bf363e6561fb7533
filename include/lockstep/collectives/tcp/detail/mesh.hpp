// The connections of a rank to others, and what it knows of their failures.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/protocol/failure_consensus.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/collectives/protocol/wait_policy.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp/detail/control_thread.hpp"
#include "lockstep/collectives/tcp/detail/message.hpp"
#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/collectives/tcp/detail/startup.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// What the operations of Tcp work with. The **cause** is the failure that all ranks name. Used by
/// one thread at a time; `control` by any.
struct TcpMesh {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;

  struct Counts {  // of messages
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
  };

  TcpMesh(const Rendezvous& rendezvous, const CommunicationOptions& communication_options)
      : names(rendezvous.addresses, rendezvous.workers),
        rank(rendezvous.rank),
        options(communication_options) {
    if (rank < 0 || rank >= size())
      throw ConfigurationError(
          concat({"rank ", rank, " has no place in a list of ", size(), " addresses"}));
    options.validate();
    spins = rendezvous.has_cores_for_all();
  }
  TcpMesh(const TcpMesh&) = delete;
  TcpMesh& operator=(const TcpMesh&) = delete;
  ~TcpMesh() {
    control.stop();
    close_sockets();
  }

  /// See Tcp::connect().
  void connect(const Rendezvous& rendezvous) {
    std::unique_ptr<ListeningPort> port;
    RetiredSockets retired;
    {
      // (The first use of `io` takes some.)
      provide_descriptors(rank, size(), options.data_connections());
      TcpStartup startup(io, rendezvous, options);
      links = startup.run();
      port = startup.release_port();
      retired = startup.release_retired();
    }
#if defined(__GLIBC__)
    // Each handshake has named all ranks: with hundreds of them, megabytes that are free again.
    if (size() > 64) trim_memory();
#endif
    for (TcpLinks& link : links) {
      if (link.control.is_open()) keep_alive_within(link.control, options.timeout);
      for (TcpSocket& socket : link.data) {
        keep_alive_within(socket, options.timeout);
        if (!options.congestion_control.empty())
          set_congestion_control(socket, options.congestion_control);
      }
    }
    watched.reserve(2 + 2 * options.data_connections() + 1);
    if (size() > 1) control.start(std::move(port), std::move(retired));
    if (rank == 0 && size() > 1) log_line(concat({"Cluster is ready: ", size(), " workers."}));
  }

  [[nodiscard]] int size() const noexcept { return names.size(); }
  [[nodiscard]] TcpLinks& links_to(int r) noexcept { return links[static_cast<std::size_t>(r)]; }
  [[nodiscard]] Counts& counts(int r) noexcept { return all_counts[static_cast<std::size_t>(r)]; }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - operation_begin).count();
  }
  [[nodiscard]] WaitPolicy::Waiter waiter() const {
    return {rank,     in_operation(operation), options.timeout, options.progress_limit(), names,
            &activity};
  }

  // --- failure -----------------------------------------------------------------------------------

  // Tells all ranks, once, and throws.
  [[noreturn, gnu::cold]] void fail(CollectiveFailure failure) {
    has_failed = true;
    failure = control.settle(std::move(failure));
    failure.operation = to_string(operation);
    failure.seconds = seconds();
    failure.bytes_done = operation_bytes;
    throw CollectiveError(std::move(failure));
  }

  // If two ranks notice it at once, the lower one reports it, so that all name the same.
  [[noreturn, gnu::cold]] void out_of_step(const TcpReceiving& message) {
    CollectiveFailure failure = message.mismatch(names.shortly(rank));
    if (failure.code == ExitCode::failure)
      failure.reason += calls(Milliseconds(100) * std::min(rank, 9));
    fail(std::move(failure));
  }

  // The call of the program that each rank is in, as the end of a sentence; empty if no rank has
  // said it. Waits for the answers, at most a second and at least `least`.
  [[nodiscard, gnu::cold]] std::string calls(Milliseconds least) {
    const auto begin = Clock::now();
    control.with([&](ControlChannel& channel) {
      for (int other = 0; other < size(); ++other)
        if (other != rank) channel.ask(other, begin);
    });
    const auto have_all_answered = [&](const ControlChannel& channel) {
      for (int other = 0; other < size(); ++other)
        if (other != rank && !channel.peer(other).answered && !channel.peer(other).gone)
          return false;
      return true;
    };
    for (auto now = begin; now < begin + Milliseconds(1000); now = Clock::now()) {
      throw_if_failed();
      if (now >= begin + least && control.with(have_all_answered)) break;
      watched.clear();
      wait(Milliseconds(5), watch_news());
    }
    return control.with([&](const ControlChannel& channel) {
      std::string text;
      for (int other = 0; other < size(); ++other) {
        const std::string call = other != rank                  ? channel.peer(other).activity
                                 : activity.get() == Activity{} ? std::string()
                                                                : to_string(activity.get());
        if (!call.empty()) text += concat({"; ", names.shortly(other), " is in ", call});
      }
      return text;
    });
  }

  // A data connection is closed or broken: perhaps because its peer gave up, in which case its
  // report is on the way.
  [[noreturn, gnu::cold]] void lose_data(int other, const asio::error_code& error) {
    control.lose_data(other, error == asio::error::eof ? 0 : error.value());
    for (const auto end = Clock::now() + 3 * FailureConsensus::time_for(size());
         Clock::now() < end;) {
      if (control.with([&](const ControlChannel& c) { return c.peer(other).goodbye; }))
        fail(WaitPolicy::after_its_end(other, waiter()));
      watched.clear();
      wait(Milliseconds(20), watch_news());
      throw_if_failed();
    }
    fail({.failed_rank = other, .reason = lost_the_connection(error.message())});
  }

  // --- waiting for sockets -----------------------------------------------------------------------

  void watch(TcpSocket& socket, short events) {
    if (socket.is_open()) watched.push_back({socket.native_handle(), events, 0});
  }

  // Returns its place in the list.
  std::size_t watch_news() {
    watched.push_back({news.descriptor(), POLLIN, 0});
    return watched.size() - 1;
  }

  // Waits until a watched socket is ready. Returns whether there is news.
  bool wait(Milliseconds time, std::size_t place_of_news) {
    const int ready = ::poll(watched.data(), watched.size(),
                             static_cast<int>(std::clamp<long long>(time.count(), 0, 60'000)));
    if (ready <= 0 || watched[place_of_news].revents == 0) return false;
    news.drain();
    return true;
  }

  // What a peer has sent before it failed still arrives: for an operation that need not wait, its
  // failure comes too late.
  void throw_if_unusable() {
    if (has_failed) throw_if_failed();
    if (is_closed)
      throw Error(concat({to_string(operation), ": the connections have been closed"}));
  }

  // Before a transfer: a user's algorithm may name any two ranks.
  void check_partners(int to, int from) const {
    for (const int other : {to, from})
      if (other != rank && !are_partners(rank, other, size()))
        throw Error(concat({to_string(operation), ": there is no connection for data between rank ",
                            rank, " and rank ", other, ": of more than ", most_ranks_all_connected,
                            " ranks, only those have one whose distance (modulo ", size(),
                            ") is a power of two"}));
  }

  void throw_if_failed() {
    if (cause.is_set()) fail(cause.get());
  }

  void close_sockets() noexcept {
    asio::error_code ignored;
    std::array<char, 1024> rest;
    for (TcpLinks& link : links) {
      // With unread bytes, closing would cut off what the peer has not read yet, perhaps
      // the report of a failure.
      if (link.control.is_open())
        while (link.control.read_some(asio::buffer(rest), ignored) > 0 && !ignored) {
        }
      link.control.close(ignored);
      for (TcpSocket& socket : link.data) socket.close(ignored);
    }
  }

  const WorkerNames names;
  const int rank;
  const CommunicationOptions options;
  bool spins = false;
  asio::io_context io{1};
  std::deque<TcpLinks> links;  // by rank; there are none to this one
  std::vector<Counts> all_counts{static_cast<std::size_t>(names.size())};  // by rank
  std::vector<pollfd> watched;
  WakePipe news;  // from the control thread, and from another thread's abort()
  FailureCause cause;
  std::optional<Clock::time_point> overtaken_until;  // by the word of it; see TcpTransfer
  ActivityBoard activity;
  TcpControl control{names, rank, activity, links, cause, news};

  Operation operation = Operation::none;
  Clock::time_point operation_begin = Clock::now();
  std::uint64_t operation_bytes = 0;
  bool is_closed = false;
  std::atomic<bool> has_failed = false;  // an operation of this rank, or its program
};

}}}  // namespace lockstep::detail
