// How the workers find each other: see Tcp. Everything happens on the calling thread, in the handlers of one io_context.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/protocol/hello.hpp"
#include "lockstep/collectives/protocol/startup_agreement.hpp"
#include "lockstep/collectives/protocol/startup_claims.hpp"
#include "lockstep/collectives/protocol/startup_roster.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp/detail/connection.hpp"
#include "lockstep/collectives/tcp/detail/control_resident.hpp"
#include "lockstep/collectives/tcp/detail/descriptors.hpp"
#include "lockstep/collectives/tcp/detail/incoming_calls.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/collectives/tcp/detail/open_port.hpp"
#include "lockstep/collectives/tcp/detail/outgoing_calls.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

// Vocabulary: a worker **calls** the lower ranks and is called by the higher ones, its **guests**. When a handshake has come to agreement,
// the connection **stands**, and has its place among its peer's **links**.
class TcpStartup {
 public:
  TcpStartup(asio::io_context& io, const Rendezvous& rendezvous, const CommunicationOptions& options)
      : io_(io),
        options_(options),
        listen_socket_(rendezvous.listen_socket),
        was_connected_(rendezvous.was_connected),
        secret_(ClusterSecret::given_or_from_environment(rendezvous.secret)),
        begin_(Clock::now()),
        roster_(rendezvous.addresses, rendezvous.rank),
        places_(rendezvous.addresses.size(), Place(1 + options.data_connections())),
        claims_(rendezvous.addresses.size(), options.startup_timeout),
        door_(
            io, std::max<std::size_t>(256, most_calls()), owner_, [this] { return Handshake::callee(mine_, secret_); },
            rendezvous.port),
        calls_(io, rendezvous.addresses, owner_, [this](int to, std::size_t link) { return greet(to, link); }),
        report_timer_(io),
        ask_timer_(io) {
    mine_.lane = static_cast<std::uint16_t>(options.data_connections() - 1);
    mine_.from = rendezvous.rank;
    mine_.addresses = rendezvous.addresses;
    mine_.properties = rendezvous.properties;
    mine_.incarnation = RandomKey(static_cast<std::uint64_t>(begin_.time_since_epoch().count()))
                            .fold_in(static_cast<std::uint64_t>(::getpid()))
                            .fold_in(reinterpret_cast<std::uintptr_t>(this))
                            .value();
  }
  ~TcpStartup() {
    if (listener_ >= 0) ::close(listener_);
  }
  TcpStartup(const TcpStartup&) = delete;
  TcpStartup& operator=(const TcpStartup&) = delete;

  /// Returns the connections by rank; this rank itself has none.
  std::deque<TcpLinks> run() {
    try {
      provide_descriptors(places_.size() - 1, options_.data_connections());
      door_.open(roster_.address(rank()), listen_socket_, options_.bind_address, 2 * static_cast<int>(most_calls()));
      for (int peer = 0; peer < rank(); ++peer) calls_.start(peer, control_link);
      if (rank() == 0 && world() > 1)  // see meet_myself
        calls_.start(0, control_link, ask_interval);
      report_later();
      ask_later();
      consider_done();
      const auto deadline = begin_ + options_.startup_timeout;
      while (!agreement_.is_reached() && !refusal_ && !agreement_.aborted() && Clock::now() < deadline)
        io_.run_one_until(deadline);
      if (refusal_) throw ConfigurationError(*refusal_);
      if (agreement_.aborted()) throw failed(*agreement_.aborted());
      if (!agreement_.is_reached() && !door_.cannot_listen().empty()) fail_to_listen();
      if (!agreement_.is_reached()) throw out_of_time();
    } catch (const Error& error) {
      tell_others(error);
      tear_down();
      throw;
    } catch (...) {
      tear_down();
      throw;
    }
    listener_ = door_.release();
    tear_down();
    std::deque<TcpLinks> result;
    for (Place& place : places_) {
      TcpLinks& links = result.emplace_back(io_);
      links.checksum = options_.checksum;
      if (place.control() == nullptr) continue;
      links.control = std::move(place.control()->socket);
      links.inbox = std::move(agreement_.inbox(static_cast<int>(result.size()) - 1));
      for (std::size_t link = first_data_link; link < place.links.size(); ++link)
        links.data.push_back(std::move(place.links[link]->socket));
    }
    return result;
  }

  /// After run(): serves the worker's port from now on; null if this worker could not listen, and
  /// no other rank had to call it.
  [[nodiscard]] std::unique_ptr<ControlResident> release_port() {
    if (listener_ < 0) return nullptr;
    return std::make_unique<TcpPort>(std::exchange(listener_, -1), mine_, secret_);
  }

 private:
  using Clock = TcpConnection::Clock;
  using Pointer = TcpConnection::Pointer;
  using ErrorCode = asio::error_code;

  static constexpr auto report_interval = std::chrono::seconds(5);
  static constexpr auto ask_interval = std::chrono::seconds(1);
  static constexpr auto contest_interval = std::chrono::milliseconds(200);
  static constexpr auto contest_timeout = std::chrono::seconds(2);

  // The connections to a peer have numbers: the one for control, and those for data.
  static constexpr std::size_t control_link = 0;
  static constexpr std::size_t first_data_link = 1;

  struct Place {
    explicit Place(std::size_t count) : links(count) {}

    [[nodiscard]] const Pointer& control() const noexcept { return links[control_link]; }
    [[nodiscard]] bool is_complete() const noexcept {
      return std::find(links.begin(), links.end(), nullptr) == links.end();
    }

    std::vector<Pointer> links;  // null while it does not stand
  };

  [[nodiscard]] int rank() const noexcept { return roster_.rank(); }
  [[nodiscard]] int world() const noexcept { return roster_.world(); }
  [[nodiscard]] Place& place(int rank) { return places_[static_cast<std::size_t>(rank)]; }
  // Connections that all peers together may make to this worker at once.
  [[nodiscard]] std::size_t most_calls() const noexcept { return places_.size() * (1 + options_.data_connections()); }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  [[nodiscard]] Handshake greet(int to, std::size_t link) const {
    if (link == control_link) return Handshake::caller(mine_, secret_, to, Hello::Channel::control, mine_.lane);
    return Handshake::caller(mine_, secret_, to, Hello::Channel::data,
                             static_cast<std::uint16_t>(link - first_data_link));
  }

  // --- the end of a handshake --------------------------------------------------------------------------------------

  void conclude(const Pointer& connection) {
    TcpConnection& c = *connection;
    const Handshake& handshake = *c.handshake;
    const Hello& theirs = handshake.theirs();
    c.incarnation = theirs.incarnation;
    const bool unproved = secret_.is_set() && !handshake.is_authenticated();
    switch (handshake.outcome()) {
      case Handshake::Outcome::open:
        return;
      case Handshake::Outcome::myself:
        return meet_myself(connection);
      case Handshake::Outcome::stranger:
        if (!handshake.problem().empty()) return fail(connection, handshake.problem());
        return fail(connection, c.incoming ? "does not speak this protocol"
                                           : "is another program, which does not speak this protocol");
      case Handshake::Outcome::refused:
        if (c.incoming) return refuse_guest(connection);
        if (unproved) return doubt_proof(connection, handshake.problem());
        if (handshake.is_authenticated()) return refuse_peer(c.peer, handshake.problem());
        return doubt_fit(connection, handshake.problem());
      case Handshake::Outcome::at_work:
        return fail(connection, handshake.problem());
      case Handshake::Outcome::agreed:
        if (unproved) return fail(connection, "has not proved that it knows the cluster secret");
        break;
    }
    if (c.incoming) {
      c.peer = theirs.from;
      c.link = theirs.channel == Hello::Channel::control ? control_link : first_data_link + theirs.lane;
      if (theirs.channel == Hello::Channel::probe) return door_.drop(connection);  // it is answered
      if (c.peer < rank())
        return fail(connection, concat({"claims to be rank ", c.peer, ", which this worker calls itself"}));
      if (c.link >= place(c.peer).links.size())
        return fail(connection, concat({"claims to be rank ", c.peer,
                                        ", with more connections for data than this worker, which has ",
                                        options_.data_connections()}));
    } else if (theirs.from != c.peer) {
      return doubt_fit(connection, concat({"answers as rank ", theirs.from}));
    }
    adopt(connection);
  }

  void fail(const Pointer& connection, const std::string& problem) {
    if (connection->incoming) return door_.turn_away(connection, problem);
    connection->discard();
    calls_.forget(connection);
    if (connection->peer == rank()) {
      StartupRoster::Peer& own = roster_.peer(rank());
      if (connection->unresolved) {
        own.complaint = problem;
        own.complainant = rank();
      } else if (own.complainant == rank()) {
        own.complainant = -1;
      }
      if (!met_myself_) calls_.start(rank(), connection->link, ask_interval);
      return;
    }
    roster_.peer(connection->peer).problem = problem;
    calls_.start_again(connection->peer, connection->link);
  }

  // Two processes that both claim rank 0 connect to nobody and would wait for each other's peers; so rank 0 looks who answers at
  // its address. And a socket that connects to a free port of its own host may be given that very port, and so meet itself.
  void meet_myself(const Pointer& connection) {
    if (!connection->incoming) return fail(connection, "connection refused");
    met_myself_ = true;
    door_.drop(connection);
  }

  // The guest has our answer, and so can say why. A guest that proves that it belongs to this
  // cluster and does not fit ends the start-up at once. Without a proof, any process may claim the
  // place that this worker waits for: it is turned away and named, and ends the start-up only if it
  // keeps coming back (with a secret, not even then).
  void refuse_guest(const Pointer& guest) {
    const Handshake& handshake = *guest->handshake;
    const Hello& theirs = handshake.theirs();
    const bool claims_place = theirs.from > rank() && theirs.from < world() && theirs.to == rank() &&
                              (theirs.version != mine_.version || has_its_address(theirs));
    const bool is_free = claims_place && place(theirs.from).control() == nullptr;
    if (claims_place &&
        (handshake.is_authenticated() ||
         (is_free && !secret_.is_set() && claims_.ends_for_callee(theirs.from, theirs.incarnation, Clock::now())))) {
      refused_guest_ = guest;
      return refuse_peer(theirs.from, handshake.problem());
    }
    if (is_free) {
      StartupRoster::Peer& claimed = roster_.peer(theirs.from);
      const std::string problem =
          concat({"was turned away: ", guest->host(), ", which claims to be it, ", handshake.problem()});
      if (claimed.turned_away.empty()) log_line(concat({roster_.name(theirs.from), " ", problem}));
      claimed.problem = claimed.turned_away = problem;
    } else if (theirs.from == rank() && theirs.addresses == mine_.addresses && !twin_named_) {
      twin_named_ = true;
      log_line(concat({guest->host(), " ", handshake.problem()}));
    }
    door_.turn_away(guest, handshake.problem());
  }

  [[nodiscard]] bool has_its_address(const Hello& theirs) const {
    const auto from = static_cast<std::size_t>(theirs.from);
    return from < theirs.addresses.size() && theirs.addresses[from] == mine_.addresses[from];
  }

  // The process at a peer's address does not fit. It may be another program that has the address
  // for a while; so this worker asks again, until both have waited long enough for another process
  // to come.
  void doubt_fit(const Pointer& connection, const std::string& problem) {
    const TcpConnection& c = *connection;
    if (claims_.ends_for_caller(c.peer, c.incarnation, c.verdict, Clock::now())) return refuse_peer(c.peer, problem);
    name_doubt(c.peer, problem, "; this worker asks again, whether another one has the place");
    if (c.peer != rank()) roster_.peer(c.peer).problem = problem;
    connection->discard();
    calls_.forget(connection);
    calls_.start(c.peer, c.link, StartupClaims::interval);
  }

  // Whoever has a lower rank's port and proves nothing may be somebody else: the true one may still come.
  void doubt_proof(const Pointer& connection, const std::string& problem) {
    name_doubt(connection->peer, problem, "; this worker tries again until the start-up times out");
    fail(connection, problem);
  }

  void name_doubt(int peer, const std::string& problem, std::string_view consequence) {
    StartupRoster::Peer& claimed = roster_.peer(peer);
    if (claimed.turned_away.empty()) log_line(concat({roster_.name(peer), " ", problem, consequence}));
    claimed.turned_away = problem;
  }

  void refuse_peer(int peer, std::string_view problem) {
    refusal_ = concat({roster_.name(peer), " ", problem,
                       "; all workers need the same program, the same cluster in TF_CONFIG and, if any, the same "
                       "LOCKSTEP_CLUSTER_SECRET"});
  }

  // --- places ------------------------------------------------------------------------------------------------------

  // The connection stands. It replaces an older one: whoever connects again has lost or left that. But when another process
  // has the place, it depends on whether that one still lives.
  void adopt(const Pointer& connection) {
    TcpConnection& c = *connection;
    Place& p = place(c.peer);
    if (c.incoming && !c.prevails && p.control() != nullptr && p.control()->incarnation != c.incarnation)
      return contend(connection);
    if (c.incoming)
      door_.forget(connection);
    else
      calls_.forget(connection);
    c.handshake.reset();
    c.timer.cancel();
    c.contends = false;
    if (p.links[c.link] != nullptr) p.links[c.link]->discard();
    p.links[c.link] = connection;
    for (std::size_t link = 0; link < p.links.size(); ++link) {
      Pointer& other = p.links[link];
      if (other == nullptr || other->incarnation == c.incarnation) continue;
      other->discard();
      other = nullptr;
      if (!c.incoming) calls_.start(c.peer, link);
    }
    calls_.succeed(c.peer);
    claims_.settle(c.peer);
    StartupRoster::Peer& peer = roster_.peer(c.peer);
    peer.connected = p.is_complete();
    peer.problem.clear();
    peer.turned_away.clear();
    if (c.link == control_link) {
      agreement_.begin(c.peer, Clock::now());
      watch(connection);
      if (!c.incoming) call_for_data(c.peer);
    }
    consider_done();
  }

  // The connection for control comes first: while a peer is not there, one is enough to try.
  void call_for_data(int to) {
    const auto& links = place(to).links;
    for (std::size_t link = first_data_link; link < links.size(); ++link)
      if (links[link] == nullptr && !calls_.is_calling(to, link)) calls_.start(to, link);
  }

  // A process that was killed has closed its connections, or does not answer; a worker that was started in its place gets it.
  // When the older process answers and is still there a moment later, there are two.
  void contend(const Pointer& guest) {
    const auto& guests = door_.guests();
    const auto earlier = std::find_if(guests.begin(), guests.end(), [&](const Pointer& g) {
      return g->contends && g->peer == guest->peer && g->link == guest->link;
    });
    if (earlier != guests.end()) door_.drop(*earlier);
    guest->contends = true;
    guest->contends_since = Clock::now();
    roster_.peer(guest->peer).answered = false;
    agreement_.ask(guest->peer);
    contest_later(guest);
  }

  void contest_later(const Pointer& guest) {
    guest->timer.expires_after(contest_interval);
    guest->timer.async_wait([this, guest](ErrorCode) {
      if (!guest->over) contest(guest);
    });
  }

  void contest(const Pointer& guest) {
    if (guest->is_closed_by_peer()) {
      door_.drop(guest);
      return consider_done();
    }
    const Pointer& older = place(guest->peer).control();
    const bool is_there = older != nullptr && older->incarnation != guest->incarnation;
    if (is_there && roster_.peer(guest->peer).answered) {
      refusal_ =
          concat({roster_.name(guest->peer), " is there twice: two processes, on ", older->host(), " and ",
                  guest->host(), ", have one place in the cluster; give each worker its own task index in TF_CONFIG"});
      return;
    }
    guest->prevails = !is_there || Clock::now() - guest->contends_since >= contest_timeout;
    if (guest->prevails)
      adopt(guest);
    else
      contest_later(guest);
  }

  void lose(int peer) {
    Place& p = place(peer);
    for (Pointer& link : p.links) {
      if (link != nullptr) link->discard();
      link = nullptr;
    }
    calls_.stop(peer);  // those for data begin again when control stands
    agreement_.lose(peer);
    roster_.peer(peer).connected = false;
    roster_.peer(peer).problem = "closed the connection again";
    if (peer < rank()) calls_.start_again(peer, control_link);
  }

  // --- agreeing that all connections stand -------------------------------------------------------------------------

  void watch(const Pointer& control) {
    control->socket.async_wait(TcpSocket::wait_read, [this, control](ErrorCode) {
      if (!control->over) read(control);
    });
  }

  void read(const Pointer& control) {
    std::array<char, 1024> chunk;
    for (;;) {
      ErrorCode error;
      const std::size_t n = control->socket.read_some(asio::buffer(chunk), error);
      if (error == asio::error::would_block) return watch(control);
      if (error) return lose(control->peer);
      const auto taken = agreement_.take(control->peer, {chunk.data(), n}, Clock::now());
      if (taken == StartupAgreement::Taken::garbage) return lose(control->peer);
      consider_done();
      if (agreement_.is_reached() || agreement_.aborted()) return;
    }
  }

  void consider_done() {
    const auto& guests = door_.guests();
    if (std::none_of(guests.begin(), guests.end(), [](const Pointer& guest) { return guest->contends; }))
      agreement_.consider();
  }

  // 16 bytes always fit into the buffer of a new connection. An error shows when the connection is read.
  static void send(TcpConnection& control, const ControlFrame& frame, std::string_view text) {
    const FrameBytes bytes = frame.encode();
    const std::array<asio::const_buffer, 2> parts{asio::buffer(bytes), asio::buffer(text)};
    ErrorCode ignored;
    control.socket.write_some(parts, ignored);
  }
  void send(int to, const ControlFrame& frame, std::string_view text) {
    if (place(to).control() != nullptr) send(*place(to).control(), frame, text);
  }

  void tell_others(const Error& error) {
    if (agreement_.aborted()) return;
    const std::string_view text = std::string_view(error.what()).substr(0, ControlFrame::longest);
    const ControlFrame frame = agreement_.report(error, text);
    for (int other = 0; other < world(); ++other) send(other, frame, text);
    for (const Pointer& guest : door_.guests())
      if (guest->contends && guest->link == control_link) send(*guest, frame, text);
    if (refused_guest_) send(*refused_guest_, frame, text);
  }

  // --- questions and reports ---------------------------------------------------------------------------------------

  // Each peer that is connected is asked whether it lives, and what it waits for.
  void ask_later() {
    ask_timer_.expires_after(ask_interval);
    ask_timer_.async_wait([this](ErrorCode) {
      if (stopped_) return;
      for (int other = 0; other < world(); ++other) agreement_.ask(other);
      ask_later();
    });
  }

  void report_later() {
    report_timer_.expires_after(report_interval);
    report_timer_.async_wait([this](ErrorCode) {
      if (stopped_) return;
      log_line(concat({"rank ", rank(), " waits since ", static_cast<int>(seconds()), " s for ",
                       roster_.describe_missing(Clock::now()), door_.problem(), door_.strangers()}));
      report_later();
    });
  }

  [[nodiscard]] CollectiveError out_of_time() const {
    CollectiveFailure failure = roster_.timed_out(Clock::now(), options_.startup_timeout);
    failure.reason += door_.problem() + door_.strangers();
    return failed(std::move(failure));
  }

  // Another socket has had this worker's port all the time.
  [[noreturn]] void fail_to_listen() const {
    const std::string reason =
        concat({door_.cannot_listen(), ", and has had it for all of the ", options_.startup_timeout.count(),
                " ms of CommunicationOptions::startup_timeout"});
    if (!was_connected_) throw ConfigurationError(reason);
    CollectiveFailure failure;
    failure.failed_rank = rank();
    failure.address = roster_.address(rank());
    failure.reason = reason;
    throw failed(std::move(failure));
  }

  [[nodiscard]] CollectiveError failed(CollectiveFailure failure) const {
    failure.operation = "start-up";
    failure.seconds = seconds();
    return CollectiveError(std::move(failure));
  }

  void tear_down() {
    stopped_ = true;
    ErrorCode ignored;
    door_.close();
    report_timer_.cancel();
    ask_timer_.cancel();
    calls_.close();
    for (const Place& p : places_)
      for (const Pointer& link : p.links)
        if (link != nullptr) {
          link->over = true;
          link->timer.cancel();
          link->socket.cancel(ignored);
        }
    io_.restart();
    io_.poll();
  }

  asio::io_context& io_;
  const CommunicationOptions options_;
  const int listen_socket_;
  const bool was_connected_;
  int listener_ = -1;
  const ClusterSecret secret_;
  const Clock::time_point begin_;
  const TcpConnection::Owner owner_{
      [this](const Pointer& connection) { conclude(connection); },
      [this](const Pointer& connection, const std::string& problem) { fail(connection, problem); }};
  Hello mine_;
  StartupRoster roster_;
  std::vector<Place> places_;  // by rank
  StartupClaims claims_;
  Pointer refused_guest_;  // which is told that the start-up ends because of it
  StartupAgreement agreement_{
      roster_, [this](int to, const ControlFrame& frame, std::string_view text) { send(to, frame, text); }};
  TcpDoor door_;
  TcpCalls calls_;
  TcpConnection::Timer report_timer_;
  TcpConnection::Timer ask_timer_;
  std::optional<std::string> refusal_;
  bool met_myself_ = false;
  bool twin_named_ = false;  // another process with this worker's rank; which has been said
  bool stopped_ = false;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
