// Workers that find each other over a simulated network: what TcpStartup does, without sockets.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/collectives/protocol/startup_agreement.hpp"
#include "lockstep/core/error.hpp"
#include "support/simulated_network.hpp"

namespace lockstep_test {

using lockstep::CollectiveError;
using lockstep::CollectiveFailure;
namespace detail = lockstep::detail;

/// One process in its start-up: the library's Handshake, StartupPlace, StartupRoster and
/// StartupAgreement, carried by simulated connections as TcpStartup carries them. At work it notices
/// the end of a peer, and tells the others.
class SimulatedWorker {
 public:
  using Network = SimulatedNetwork;
  using Time = Network::Time;
  using Milliseconds = std::chrono::milliseconds;

  enum class State { starting, at_work, failed };

  SimulatedWorker(Network& network, const std::vector<std::string>& addresses, int rank,
                  Milliseconds startup_timeout)
      : network_(network),
        roster_(detail::WorkerNames(addresses), rank),
        agreement_(roster_, [this](int to, const detail::ControlFrame& frame,
                                   std::string_view text) { send(to, frame, text); }),
        places_(places_for(rank, static_cast<int>(addresses.size()))),
        delays_(addresses.size(), Milliseconds(50)) {
    mine_.from = rank;
    mine_.addresses = addresses;
    mine_.incarnation = static_cast<std::uint64_t>(network.start(rank));
    roster_.peer(rank).incarnation = mine_.incarnation;
    network_.listen(rank, [this](const Network::Pointer& socket) { receive(socket); });
    for (int peer = 0; peer < rank; ++peer)
      if (roster_.is_contact(peer)) call(peer, Place::control_link, {});
    ask_later();
    network_.tell_at(network_.now() + startup_timeout, rank, [this, startup_timeout] {
      if (state_ == State::starting) fail(roster_.timed_out(network_.now(), startup_timeout));
    });
  }

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] const CollectiveFailure& failure() const noexcept { return failure_; }
  /// Of a worker that is or was at work: the processes that it met, by rank; 0: none.
  [[nodiscard]] const std::vector<std::uint64_t>& met() const noexcept { return met_; }

 private:
  struct Call {
    Network::Pointer socket;
    std::optional<detail::Handshake> handshake;
    bool incoming = false, over = false, contends = false, prevails = false;
    int peer = -1;
    std::size_t link = 0;
    std::uint64_t incarnation = 0;
    Time contends_since{};
  };
  using Pointer = std::shared_ptr<Call>;
  using Place = detail::StartupPlace<Pointer>;

  // As StartupContext has them, with one connection for data.
  static std::vector<Place> places_for(int rank, int size) {
    std::vector<Place> places;
    for (int other = 0; other < size; ++other)
      places.emplace_back(detail::are_partners(rank, other, size) ? 2 : 1);
    return places;
  }
  [[nodiscard]] bool is_partner(int other) const {
    return detail::are_partners(rank(), other, roster_.world());
  }

  [[nodiscard]] Place& place(int peer) { return places_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] int rank() const { return roster_.rank(); }

  void later(Network::Duration time, std::function<void()> act) {
    network_.tell_at(network_.now() + time, rank(), std::move(act));
  }

  // --- calls -------------------------------------------------------------------------------------

  void call(int to, std::size_t link, Milliseconds delay) {
    const auto call = std::make_shared<Call>();
    call->peer = to;
    call->link = link;
    calls_.push_back(call);
    later(delay, [this, call] {
      if (call->over || state_ != State::starting) return;
      network_.connect(rank(), call->peer, std::chrono::seconds(10),
                       [this, call](const Network::Pointer& socket, bool) {
                         if (socket != nullptr && call->over) return network_.close(*socket);
                         if (!call->over) connected(call, socket);
                       });
    });
  }
  void connected(const Pointer& call, const Network::Pointer& socket) {
    if (socket == nullptr) return fail_call(call, "does not answer");
    call->socket = socket;
    const bool is_control = call->link == Place::control_link;
    call->handshake.emplace(detail::Handshake::caller(
        mine_, {}, call->peer,
        is_control ? detail::Hello::Channel::control : detail::Hello::Channel::data, 0));
    watch_handshake(call);
  }
  void receive(const Network::Pointer& socket) {
    const auto guest = std::make_shared<Call>();
    guest->incoming = true;
    guest->socket = socket;
    guest->handshake.emplace(state_ == State::starting
                                 ? detail::Handshake::callee(mine_, {})
                                 : detail::Handshake::callee_at_work(mine_, {}));
    guests_.push_back(guest);
    watch_handshake(guest);
  }
  void watch_handshake(const Pointer& call) {
    call->socket->on_change = [this, weak = std::weak_ptr(call)] {
      if (const Pointer known = weak.lock()) pump(known);
    };
    later(std::chrono::seconds(10), [this, call] {
      if (call->handshake && !call->over) fail_call(call, "is silent");
    });
    pump(call);
  }

  void pump(const Pointer& call) {
    using Outcome = detail::Handshake::Outcome;
    if (call->over || !call->handshake || state_ == State::failed) return;
    for (;;) {
      detail::Handshake& handshake = *call->handshake;
      if (!handshake.out().empty()) {
        network_.send(*call->socket, std::string(handshake.out()));
        handshake.sent(handshake.out().size());
      }
      if (handshake.outcome() != Outcome::open) return conclude(call);
      const std::string bytes = network_.read(*call->socket, handshake.wanted());
      if (bytes.empty()) break;
      handshake.take(bytes);
    }
    if (call->socket->is_at_end()) fail_call(call, "closes the connection");
  }

  void conclude(const Pointer& call) {
    const detail::Handshake& handshake = *call->handshake;
    const detail::Hello& theirs = handshake.theirs();
    if (handshake.outcome() != detail::Handshake::Outcome::agreed)
      return fail_call(call, handshake.problem());
    call->incarnation = theirs.incarnation;
    if (call->incoming) {
      call->peer = theirs.from;
      call->link = theirs.channel == detail::Hello::Channel::control ? Place::control_link
                                                                     : Place::first_data_link;
    }
    if (state_ != State::starting) return drop(call);
    adopt(call);
  }

  void fail_call(const Pointer& call, const std::string& problem) {
    const bool was_over = call->over;
    drop(call);
    if (call->incoming || was_over || state_ != State::starting) return;
    roster_.peer(call->peer).problem = problem;
    call_again(call->peer, call->link);
  }
  void call_again(int peer, std::size_t link) {
    Milliseconds& delay = delays_[static_cast<std::size_t>(peer)];
    call(peer, link, delay);
    delay = std::min(2 * delay, Milliseconds(1000));
  }

  void drop(const Pointer& call) {
    call->over = true;
    if (call->socket) network_.close(*call->socket);
    std::erase(calls_, call);
    std::erase(guests_, call);
  }

  // --- places ------------------------------------------------------------------------------------

  void adopt(const Pointer& call) {
    Place& p = place(call->peer);
    if (call->incoming && !call->prevails && p.is_anothers(call->incarnation)) return contend(call);
    std::erase(calls_, call);
    std::erase(guests_, call);
    call->handshake.reset();
    call->contends = false;
    p.put(call->link, call, [&](std::size_t link, const Pointer& former) {
      drop(former);
      if (link != call->link && !call->incoming) this->call(call->peer, link, {});
    });
    delays_[static_cast<std::size_t>(call->peer)] = Milliseconds(50);
    detail::StartupRoster::Peer& peer = roster_.peer(call->peer);
    peer.incarnation = call->incarnation;
    peer.connected = p.is_complete();
    peer.problem.clear();
    if (call->link == Place::control_link) {
      agreement_.begin(call->peer, network_.now());
      call->socket->on_change = [this, weak = std::weak_ptr(call)] {
        if (const Pointer known = weak.lock()) read(known);
      };
      if (!call->incoming && p.links.size() > 1 && p.links[Place::first_data_link] == nullptr &&
          std::none_of(calls_.begin(), calls_.end(),
                       [&](const Pointer& c) { return c->peer == call->peer && c->link != 0; }))
        this->call(call->peer, Place::first_data_link, {});
      read(call);
    } else {
      call->socket->on_change = nullptr;
    }
    consider();
  }

  void contend(const Pointer& guest) {
    const auto earlier = std::find_if(guests_.begin(), guests_.end(), [&](const Pointer& g) {
      return g->contends && g->peer == guest->peer && g->link == guest->link;
    });
    if (earlier != guests_.end()) drop(Pointer(*earlier));
    guest->contends = true;
    guest->contends_since = network_.now();
    agreement_.ask_whether_it_lives(guest->peer);
    contest_later(guest);
  }
  void contest_later(const Pointer& guest) {
    later(Place::contest_interval, [this, guest] {
      if (guest->over || state_ != State::starting) return;
      if (guest->socket->is_closed_by_peer()) {
        drop(guest);
        return consider();
      }
      switch (place(guest->peer)
                  .contest(guest->incarnation, roster_.peer(guest->peer).answered,
                           network_.now() - guest->contends_since)) {
        case Place::Contest::goes_on:
          return contest_later(guest);
        case Place::Contest::prevails:
          guest->prevails = true;
          return adopt(guest);
        case Place::Contest::twins: {
          CollectiveFailure failure;
          failure.failed_rank = guest->peer;
          failure.reason = "is there twice";
          return fail(std::move(failure));
        }
      }
    });
  }

  void lose(int peer) {
    Place& p = place(peer);
    for (Pointer& link : p.links)
      if (const Pointer former = std::exchange(link, nullptr)) drop(former);
    for (const Pointer& call : std::vector(calls_))
      if (call->peer == peer) drop(call);
    agreement_.lose(peer);
    roster_.peer(peer).connected = false;
    roster_.peer(peer).problem = "closed the connection again";
    if (peer < rank()) call_again(peer, Place::control_link);
  }

  // --- words -------------------------------------------------------------------------------------

  static std::string bytes_of(const detail::ControlFrame& frame, std::string_view text) {
    const detail::FrameBytes bytes = frame.encode();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) +
           std::string(text);
  }
  void send(int to, const detail::ControlFrame& frame, std::string_view text) {
    if (const Pointer& control = place(to).control())
      network_.send(*control->socket, bytes_of(frame, text));
  }
  void ask_later() {
    later(roster_.ask_interval(), [this] {
      if (state_ != State::starting) return;
      for (int other = 0; other < roster_.world(); ++other)
        if (roster_.is_contact(other)) agreement_.ask(other);
      ask_later();
    });
  }
  void consider() {
    if (state_ != State::starting) return;
    if (std::none_of(guests_.begin(), guests_.end(), [](const Pointer& g) { return g->contends; }))
      agreement_.consider();
    if (agreement_.aborted()) return pass_on(*agreement_.aborted());
    if (!agreement_.is_reached()) return look_for_lost_later();
    state_ = State::at_work;
    for (int other = 0; other < roster_.world(); ++other)
      met_.push_back(other == rank()                     ? mine_.incarnation
                     : place(other).control() != nullptr ? place(other).control()->incarnation
                                                         : 0);
    // As RetiredSockets has it: rank 0 waits until the others close what is of no more use.
    for (int other = 0; other < roster_.world(); ++other)
      if (rank() != 0 && !is_partner(other))
        if (const Pointer control = std::exchange(place(other).links[Place::control_link], nullptr))
          drop(control);
    for (const Pointer& call : std::vector(calls_)) drop(call);
    for (const Pointer& guest : std::vector(guests_)) drop(guest);
    for (int other = 0; other < roster_.world() && state_ == State::at_work; ++other)
      if (const Pointer control = place(other).control()) read(control);
  }

  // As TcpStartup does.
  void look_for_lost_later() {
    const Time due = agreement_.due();
    if (due == Time::max() || due == looks_at_) return;
    looks_at_ = due;
    network_.tell_at(due, rank(), [this] {
      if (state_ != State::starting) return;
      agreement_.look_for_lost(network_.now());
      consider();
    });
  }

  void read(const Pointer& control) {
    if (control->over || state_ == State::failed) return;
    if (state_ == State::at_work) return read_at_work(*control);
    while (state_ == State::starting && !control->over) {
      const std::string bytes = network_.read(*control->socket, 1024);
      if (bytes.empty()) break;
      if (agreement_.take(control->peer, bytes, network_.now()) ==
          detail::StartupAgreement::Taken::garbage)
        return lose(control->peer);
      consider();
    }
    if (state_ == State::starting && !control->over && control->socket->is_at_end())
      lose(control->peer);
  }

  // A report ends it, and so does the end of a connection.
  void read_at_work(const Call& control) {
    const std::string bytes = network_.read(*control.socket, 1 << 20);
    if (!is_partner(control.peer)) return;  // RetiredSockets ignores it
    detail::ControlInbox& inbox = agreement_.inbox(control.peer);
    inbox.append(bytes);
    for (auto message = inbox.front(); message; message = inbox.front()) {
      if (message->frame.type == detail::ControlFrame::Type::abort) {
        CollectiveFailure failure;
        failure.failed_rank = message->frame.value;
        failure.reason = std::string(message->text);
        return fail(std::move(failure));
      }
      inbox.pop();
    }
    if (!control.socket->is_at_end()) return;
    CollectiveFailure failure;
    failure.failed_rank = control.peer;
    failure.reason = "closed the connection";
    fail(std::move(failure));
  }

  // As TcpStartup does.
  void pass_on(const CollectiveFailure& failure) {
    const auto frame = agreement_.report(CollectiveError(failure), failure.reason);
    for (int other = 0; other < roster_.world(); ++other)
      if (agreement_.is_news_for(other)) send(other, frame, failure.reason);
    fail(failure);
  }

  void fail(CollectiveFailure failure) {
    failure_ = std::move(failure);
    state_ = State::failed;
    if (!agreement_.aborted()) {
      const CollectiveError error(failure_);
      const auto frame = agreement_.report(error, failure_.reason);
      for (int other = 0; other < roster_.world(); ++other) send(other, frame, failure_.reason);
    }
    network_.kill(rank());
  }

  Network& network_;
  detail::Hello mine_;
  detail::StartupRoster roster_;
  detail::StartupAgreement agreement_;
  std::vector<Place> places_;         // by rank
  std::vector<Milliseconds> delays_;  // by rank
  std::vector<Pointer> calls_, guests_;
  Time looks_at_{};
  State state_ = State::starting;
  CollectiveFailure failure_;
  std::vector<std::uint64_t> met_;
};

}  // namespace lockstep_test
