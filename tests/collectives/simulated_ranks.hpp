// Ranks that work over a simulated network: the protocol of Tcp without sockets and threads.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/protocol/failure_consensus.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/collectives/protocol/wait_policy.hpp"
#include "lockstep/core/activity.hpp"
#include "support/fiber.hpp"
#include "support/simulated_network.hpp"

namespace lockstep_test {

using lockstep::ActivityBoard;
using lockstep::CollectiveError;
using lockstep::CollectiveFailure;
using lockstep::CommunicationOptions;
using lockstep::ExitCode;
using lockstep::Flow;
using lockstep::Operation;
using lockstep::Transport;
namespace detail = lockstep::detail;

/// A rank's process: its control connections, served by the library's FailureWatch whatever the
/// rank does, its connections for data, and a fiber for its program.
class SimulatedRank {
 public:
  using Time = SimulatedNetwork::Time;
  using Milliseconds = std::chrono::milliseconds;

  /// What the program gets from a wait after its process has been killed.
  struct Killed {};

  SimulatedRank(SimulatedNetwork& network, const std::vector<std::string>& addresses, int rank,
                const CommunicationOptions& options)
      : network_(network),
        names_(addresses),
        options_(options),
        rank_(rank),
        process_(network.start(rank)),
        watch_(names_, rank, board_, cause_,
               [this](int to, const detail::ControlFrame& frame, std::string_view text) {
                 send(to, frame, text);
               }),
        links_(addresses.size()) {}

  /// The connections to a higher rank, if there are any between the two.
  void meet(SimulatedRank& other) {
    if (!detail::are_partners(rank_, other.rank_, size())) return;
    for (const bool is_control : {true, false}) {
      const auto ends = network_.connected(rank_, other.rank_);
      take_up(other.rank_, ends.first, is_control);
      other.take_up(rank_, ends.second, is_control);
    }
  }

  /// The program of this rank begins: f(). When it ends with an exception, the process exits.
  void begin(std::function<void()> program) {
    fiber_ = std::make_unique<Fiber>(std::move(program));
    network_.tell_at(network_.now(), rank_, [this] { resume(); });
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(names_.size()); }
  [[nodiscard]] bool is_killed() const { return network_.process(rank_) != process_; }
  [[nodiscard]] bool has_ended() const { return fiber_->has_ended(); }
  [[nodiscard]] const std::exception_ptr& thrown() const { return fiber_->thrown(); }
  /// When the program ended.
  [[nodiscard]] Time end() const noexcept { return end_; }

  /// The connection to a peer breaks, if there is one.
  void reset(int peer, bool is_control) {
    if (!watch_.channel().is_partner(peer)) return;
    network_.reset(is_control ? *link(peer).control : *link(peer).data);
  }

  /// The program of a killed process unwinds.
  void bury() {
    while (fiber_ && !fiber_->has_ended()) fiber_->resume();
  }

  void begin(Operation operation) noexcept {
    operation_ = operation;
    operation_begin_ = network_.now();
  }

  void transfer(int to, int from, Flow& flow) {
    if (cause_.is_set()) fail(cause_.get());
    Transfer transfer{{operation_, 0, flow.bytes_to_send()},
                      {operation_, 0, flow.bytes_to_receive()}};
    if (transfer.sent_frame.length > 0) transfer.sent_frame.sequence = link(to).sent++;
    transfer.received_frame.sequence = link(from).received;
    detail::WaitPolicy policy(waiter(), network_.now());
    for (;;) {
      const bool sent = send_some(link(to), flow, transfer);
      const bool received = receive_some(from, flow, transfer);
      if (sent || received) policy.moved(network_.now(), received);
      if (sent || received) continue;
      const bool sends = !transfer.has_sent(), receives = !transfer.has_received();
      if (!sends && !receives) break;
      if (cause_.is_set()) fail(cause_.get());
      for (const auto& [other, waits] : {std::pair(to, sends), std::pair(from, receives)})
        if (waits && link(other).data->is_at_end()) lose_data(other);
      look(policy, receives ? from : -1, sends ? to : -1);
      sleep(policy.left(network_.now()));
    }
    watch_.channel().set_awaited(-1);
    if (transfer.received_frame.length > 0) ++link(from).received;
  }

  void abort(std::string_view reason, ExitCode code) noexcept {
    CollectiveFailure failure = failure_of(rank_, std::string(reason));
    failure.code = code;
    watch_.settle(std::move(failure));
  }

  /// The program computes for a while.
  void compute(SimulatedNetwork::Duration time) {
    for (const Time end = network_.now() + time; network_.now() < end;)
      sleep(std::chrono::ceil<Milliseconds>(end - network_.now()));
  }

 private:
  struct Link {
    SimulatedNetwork::Pointer control, data;
    std::uint32_t sent = 0, received = 0;  // messages
  };
  struct Transfer {
    detail::DataFrame sent_frame, received_frame;
    std::size_t frame_sent = 0;
    std::uint64_t sent = 0, received = 0;  // of the streams
    std::string begun{};                   // of the received frame

    [[nodiscard]] bool has_sent() const { return sent == sent_frame.length; }
    [[nodiscard]] bool has_received() const { return received == received_frame.length; }
  };

  [[nodiscard]] Link& link(int rank) { return links_[static_cast<std::size_t>(rank)]; }

  // --- the program -------------------------------------------------------------------------------

  void resume() {
    if (fiber_->has_ended()) return;
    fiber_->resume();
    if (!fiber_->has_ended()) return;
    end_ = network_.now();
    if (!fiber_->thrown()) return;
    // The process ends some time after its program has failed.
    network_.after(network_.random_time(Milliseconds(0), Milliseconds(50)), [this] {
      if (!is_killed()) network_.kill(rank_);
    });
  }

  /// Until something comes, or the time is over.
  void sleep(Milliseconds time) {
    const std::uint64_t number = ++wait_;
    network_.tell_at(network_.now() + time, rank_, [this, number] {
      if (wait_ == number) resume();
    });
    fiber_->pause();
    ++wait_;
    if (is_killed()) throw Killed();
  }
  void wake() {
    if (fiber_ && !fiber_->is_running()) resume();
  }

  [[nodiscard]] detail::WaitPolicy::Waiter waiter() const {
    return {rank_,
            detail::in_operation(operation_),
            options_.timeout,
            options_.progress_limit(),
            names_,
            &board_};
  }

  [[noreturn]] void fail(CollectiveFailure failure) {
    failure = watch_.settle(std::move(failure));
    failure.operation = to_string(operation_);
    failure.seconds = std::chrono::duration<double>(network_.now() - operation_begin_).count();
    throw CollectiveError(std::move(failure));
  }
  static CollectiveFailure failure_of(int rank, std::string reason) {
    CollectiveFailure failure;
    failure.failed_rank = rank;
    failure.reason = std::move(reason);
    return failure;
  }

  void look(detail::WaitPolicy& policy, int receiving, int sending) {
    const Time now = network_.now();
    watch_.channel().set_awaited(receiving >= 0 ? receiving : sending);
    if (!policy.is_due(now)) return;
    auto advice = policy.look(watch_.channel(), receiving, sending, now);
    if (!advice.failure) return;
    if (!advice.is_silence) fail(std::move(*advice.failure));
    watch_.miss(advice.failure->failed_rank, options_.timeout, now);
    conclude();
  }

  bool send_some(Link& link, Flow& flow, Transfer& transfer) {
    if (transfer.has_sent()) return false;
    const auto frame = transfer.sent_frame.encode();
    if (transfer.frame_sent < frame.size()) {
      const std::string_view all(reinterpret_cast<const char*>(frame.data()), frame.size());
      const std::size_t n = network_.write(*link.data, all.substr(transfer.frame_sent));
      transfer.frame_sent += n;
      return n > 0;
    }
    const auto bytes = flow.outgoing();
    if (bytes.empty()) return false;
    const std::size_t n =
        network_.write(*link.data, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (n > 0) flow.sent(n);
    transfer.sent += n;
    return n > 0;
  }

  bool receive_some(int from, Flow& flow, Transfer& transfer) {
    if (transfer.has_received()) return false;
    auto& socket = *link(from).data;
    constexpr std::size_t frame_size = detail::DataFrame::size;
    if (transfer.begun.size() < frame_size) {
      const std::string bytes = network_.read(socket, frame_size - transfer.begun.size());
      transfer.begun += bytes;
      const auto expected = transfer.received_frame.encode();
      if (transfer.begun.size() == frame_size &&
          std::memcmp(transfer.begun.data(), expected.data(), frame_size) != 0)
        fail(failure_of(from, "is out of step"));
      return !bytes.empty();
    }
    const auto room = flow.incoming();
    const std::string bytes = network_.read(
        socket, static_cast<std::size_t>(std::min<std::uint64_t>(
                    room.size(), transfer.received_frame.length - transfer.received)));
    if (bytes.empty()) return false;
    std::memcpy(room.data(), bytes.data(), bytes.size());
    flow.received(bytes.size());
    transfer.received += bytes.size();
    return true;
  }

  [[noreturn]] void lose_data(int other) {
    watch_.lose_data(other, link(other).data->error(), network_.now());
    conclude();
    for (const Time end = network_.now() + 3 * detail::FailureConsensus::time_for(size());
         network_.now() < end;) {
      if (cause_.is_set()) fail(cause_.get());
      sleep(Milliseconds(20));
    }
    fail(failure_of(other, "lost a connection"));
  }

  // --- the control connections -------------------------------------------------------------------

  void take_up(int other, SimulatedNetwork::Pointer socket, bool is_control) {
    if (is_control) {
      watch_.channel().peer(other).heard = network_.now();
      socket->on_change = [this] { serve(); };
      link(other).control = std::move(socket);
    } else {
      socket->on_change = [this] { wake(); };
      link(other).data = std::move(socket);
    }
  }

  void send(int to, const detail::ControlFrame& frame, std::string_view text) {
    if (watch_.channel().peer(to).gone) return;
    const detail::FrameBytes bytes = frame.encode();
    network_.send(
        *link(to).control,
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + std::string(text));
  }

  void serve() {
    const Time now = network_.now();
    bool has_news = false;
    for (const int other : watch_.channel().partners()) {
      if (watch_.channel().peer(other).gone) continue;
      auto& socket = *link(other).control;
      while (true) {
        const std::string bytes = network_.read(socket, 1024);
        if (bytes.empty()) break;
        has_news = watch_.take(other, bytes, now) || has_news;
      }
      if (!socket.is_at_end()) continue;
      has_news = true;
      if (watch_.lose(other, socket.error(), now)) look_for(other, socket.error() != 0);
    }
    has_news = conclude() || has_news;
    if (has_news) wake();
  }

  bool conclude() {
    const bool is_new = watch_.conclude(network_.now());
    const Time due = watch_.due();
    if (due != Time::max())
      network_.tell_at(due, rank_, [this] {
        if (conclude()) wake();
      });
    return is_new;
  }

  // As PortProbes does.
  void look_for(int other, bool waits) {
    watch_.look_for(other, waits);
    const bool passes = network_.passes(rank_, other) && network_.passes(other, rank_);
    const auto time = passes ? network_.random_time(Milliseconds(0), Milliseconds(10))
                             : SimulatedNetwork::Duration(Milliseconds(1000));
    network_.tell_at(network_.now() + time, rank_, [this, other, passes] {
      using Process = detail::PeerEvidence::Process;
      if (cause_.is_set()) return;
      const bool lives = network_.is_alive(other) && !network_.is_frozen(other);
      watch_.found(other, !passes                    ? Process::unknown
                          : lives                    ? Process::lives
                          : network_.is_alive(other) ? Process::unknown
                                                     : Process::ended);
      if (conclude()) wake();
    });
  }

  SimulatedNetwork& network_;
  const detail::WorkerNames names_;
  const CommunicationOptions& options_;
  const int rank_;
  const int process_;
  ActivityBoard board_;
  detail::FailureCause cause_;
  detail::FailureWatch watch_;
  std::vector<Link> links_;  // by rank
  Operation operation_ = Operation::none;
  Time operation_begin_{};
  Time end_{};
  std::uint64_t wait_ = 0;  // the number of the last one
  std::unique_ptr<Fiber> fiber_;
};

/// A Transport of a SimulatedRank, for its program alone.
class SimulatedTransport {
 public:
  explicit SimulatedTransport(SimulatedRank& rank) : rank_(&rank) {}

  [[nodiscard]] int rank() const noexcept { return rank_->rank(); }
  [[nodiscard]] int size() const noexcept { return rank_->size(); }
  void begin(Operation operation) noexcept { rank_->begin(operation); }
  void transfer(int to, int from, Flow& flow) { rank_->transfer(to, from, flow); }
  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept {
    rank_->abort(reason, code);
  }

 private:
  SimulatedRank* rank_;
};

static_assert(Transport<SimulatedTransport>);

}  // namespace lockstep_test
