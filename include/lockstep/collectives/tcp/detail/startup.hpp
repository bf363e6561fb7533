// How the workers find each other: see Tcp.
#pragma once

#include <sys/resource.h>
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
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/protocol/partners.hpp"
#include "lockstep/collectives/protocol/startup_agreement.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp/detail/calls.hpp"
#include "lockstep/collectives/tcp/detail/control_thread.hpp"
#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/collectives/tls/tls_settings.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/rare_log.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// A start-up under way. Vocabulary: a worker **calls** the lower ranks and is called by the higher
/// ones, its **guests**. When a handshake has come to agreement, the connection **stands**, and has
/// its place among its peer's **links**.
struct StartupContext {
  using Clock = TcpConnection::Clock;
  using Place = StartupPlace<TcpConnection::Pointer>;

  StartupContext(asio::io_context& service, const Rendezvous& rendezvous,
                 const CommunicationOptions& communication)
      : io(service),
        options(communication),
        secret(ClusterSecret::given_or_from_environment(rendezvous.secret)),
        roster(WorkerNames(rendezvous.addresses, rendezvous.workers), rendezvous.rank),
        owner{.names = roster.names(), .tls = own_tls(), .concluded = {}, .failed = {}},
        places(empty_places()),
        claims(rendezvous.addresses.size(), options.startup_timeout),
        incoming(
            io, std::max<std::size_t>(256, most_calls()), owner,
            [this] { return Handshake::callee(mine, secret); }, rendezvous.port),
        outgoing(io, owner, [this](int to, std::size_t link) { return greet(to, link); }) {
    mine.lane = static_cast<std::uint16_t>(options.data_connections() - 1);
    mine.from = rendezvous.rank;
    mine.addresses = rendezvous.addresses;
    mine.properties = rendezvous.properties;
    mine.incarnation = RandomKey(static_cast<std::uint64_t>(begun.time_since_epoch().count()))
                           .fold_in(static_cast<std::uint64_t>(::getpid()))
                           .fold_in(reinterpret_cast<std::uintptr_t>(this))
                           .value();
    roster.peer(rank()).incarnation = mine.incarnation;
  }
  StartupContext(const StartupContext&) = delete;
  StartupContext& operator=(const StartupContext&) = delete;

  [[nodiscard]] int rank() const noexcept { return roster.rank(); }
  [[nodiscard]] int world() const noexcept { return roster.world(); }
  [[nodiscard]] Place& place(int r) { return places[static_cast<std::size_t>(r)]; }
  /// Connections that all peers together may make to this worker at once.
  [[nodiscard]] std::size_t most_calls() const noexcept {
    std::size_t count = 0;
    for (int other = 0; other < world(); ++other)
      if (roster.is_contact(other)) count += places[static_cast<std::size_t>(other)].links.size();
    return count;
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begun).count();
  }

  /// The start-up ends because a peer does not fit.
  void refuse_peer(int peer, std::string_view problem) {
    refusal = concat({roster.names()(peer), " ", problem, all_need_the_same});
  }

  /// 16 bytes always fit into the buffer of a new connection. An error shows when the connection is
  /// read.
  static void send(TcpConnection& control, const ControlFrame& frame, std::string_view text) {
    const FrameBytes bytes = frame.encode();
    const std::array<asio::const_buffer, 2> parts{asio::buffer(bytes), asio::buffer(text)};
    asio::error_code ignored;
    control.socket.write_some(parts, ignored);
  }
  void send(int to, const ControlFrame& frame, std::string_view text) {
    if (place(to).control() != nullptr) send(*place(to).control(), frame, text);
  }

  asio::io_context& io;
  const CommunicationOptions options;
  const ClusterSecret secret;
  const Clock::time_point begun = Clock::now();
  StartupRoster roster;
  TcpConnection::Owner owner;  ///< of all connections: TcpStartup sets the functions
  Hello mine;
  std::vector<Place> places;  ///< by rank
  StartupClaims claims;
  std::optional<std::string> refusal;    ///< why the start-up ends
  TcpConnection::Pointer refused_guest;  ///< which is told that the start-up ends because of it
  StartupAgreement agreement{roster, [this](int to, const ControlFrame& frame,
                                            std::string_view text) { send(to, frame, text); }};
  IncomingCalls incoming;
  OutgoingCalls outgoing;

 private:
  // One connection for control with each contact, and those for data with the partners. (The place
  // of a rank that is no contact stays empty.)
  [[nodiscard]] std::vector<Place> empty_places() const {
    std::vector<Place> result;
    result.reserve(static_cast<std::size_t>(world()));
    for (int other = 0; other < world(); ++other)
      result.emplace_back(1 +
                          (are_partners(rank(), other, world()) ? options.data_connections() : 0));
    return result;
  }
  [[nodiscard]] std::shared_ptr<const TlsContext> own_tls() const {
    const int worker = roster.names().number(rank());
    return TlsContext::make(TlsSettings::chosen(options, worker), secret, worker);
  }
  [[nodiscard]] Handshake greet(int to, std::size_t link) const {
    if (link == Place::control_link)
      return Handshake::caller(mine, secret, to, Hello::Channel::control, mine.lane);
    return Handshake::caller(mine, secret, to, Hello::Channel::data,
                             static_cast<std::uint16_t>(link - Place::first_data_link));
  }
};

/// Raises the limit of open files to what a worker needs. Throws ConfigurationError when the system
/// does not allow that many: some peers would be missing until the start-up times out.
inline void provide_descriptors(int rank, int world, std::size_t data_connections) {
  const std::size_t partners = partners_of(rank, world).size();
  const bool meets_rank_0 = rank != 0 && !are_partners(0, rank, world);
  const std::size_t peers =
      rank == 0 ? static_cast<std::size_t>(world) - 1 : partners + (meets_rank_0 ? 1 : 0);
  constexpr rlim_t others = 32;  // standard streams, the port, event queues, data sets, logs
  const rlim_t needed = static_cast<rlim_t>(peers + partners * data_connections) + others;
  constexpr rlim_t strangers = 256;  // that may call the port at once
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed + strangers) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  throw ConfigurationError(
      concat({"connections to ", peers, " other workers, to each one for control and to ", partners,
              " of them ", data_connections, " for data (CommunicationOptions::connections), take ",
              static_cast<std::size_t>(needed),
              " open files with some for the program itself, and this process may have ",
              static_cast<std::size_t>(limit.rlim_cur),
              " (RLIMIT_NOFILE); use fewer connections, or raise the limit (ulimit -n)"}));
}

/// A start-up from the first call to the agreement that all connections stand. Everything happens
/// on the calling thread, in the handlers of one io_context. It calls the contacts of lower rank,
/// gives each connection that has ended its handshake the place that it has earned, judges
/// processes that do not fit, and carries the words of StartupAgreement.
class TcpStartup : StartupContext {
 public:
  using Pointer = TcpConnection::Pointer;

  TcpStartup(asio::io_context& service, const Rendezvous& rendezvous,
             const CommunicationOptions& communication)
      : StartupContext(service, rendezvous, communication),
        listen_socket_(rendezvous.listen_socket),
        was_connected_(rendezvous.was_connected) {
    owner.concluded = [this](const Pointer& connection) { conclude(connection); };
    owner.failed = [this](const Pointer& connection, const std::string& problem) {
      if (connection->socket.problem("").empty()) return fail(connection, problem);
      doubt_encryption(connection, problem);
    };
  }

  /// Returns the connections by rank; this rank itself has none, nor one that is no partner.
  std::deque<TcpLinks> run() {
    try {
      await_agreement();
    } catch (const Error& error) {
      tell_others(error);
      tear_down();
      throw;
    } catch (...) {
      tear_down();
      throw;
    }
    listener_ = incoming.release();
    tear_down();
    std::deque<TcpLinks> result;
    for (int other = 0; other < world(); ++other) {
      Place& its = place(other);
      TcpLinks& links = result.emplace_back(io);
      links.checksum = options.checksum;
      if (its.control() == nullptr) continue;
      if (!are_partners(rank(), other, world())) {
        retired_.add(std::move(its.control()->socket));
        continue;
      }
      links.incarnation = its.control()->incarnation;
      links.control = std::move(its.control()->socket);
      links.inbox = std::move(agreement.inbox(other));
      for (std::size_t link = Place::first_data_link; link < its.links.size(); ++link)
        links.data.push_back(std::move(its.links[link]->socket));
      for (const TcpSocket& socket : links.data)
        if (socket.tls != nullptr) socket.tls->expect_long_messages();
    }
    // Rank 0 has said go on these. A rank that has heard it closes its end first: if rank 0 did,
    // with something unread, the word might get lost.
    if (rank() != 0) retired_.clear();
    return result;
  }

  /// After run(): rank 0's connections with ranks that are no partners, to be closed when these
  /// close them.
  [[nodiscard]] RetiredSockets release_retired() { return std::move(retired_); }

  /// After run(): serves the worker's port from now on; null if this worker could not listen, and
  /// no other rank had to call it.
  [[nodiscard]] std::unique_ptr<ListeningPort> release_port() {
    if (!listener_.is_open()) return nullptr;
    return std::make_unique<ListeningPort>(std::move(listener_), mine, secret, owner.tls);
  }

 private:
  static constexpr auto ask_interval = std::chrono::seconds(1);

  void await_agreement() {
    incoming.open(roster.names().address(rank()), listen_socket_, options.bind_address,
                  std::max(128, 2 * static_cast<int>(most_calls())));
    report_later();
    begin();
    const auto deadline = begun + options.startup_timeout;
    while (!agreement.is_reached() && !refusal && !agreement.aborted() && Clock::now() < deadline) {
      io.run_one_until(std::min(deadline, agreement.due()));
      agreement.look_for_lost(Clock::now());
    }
    if (refusal) throw ConfigurationError(*refusal);
    if (agreement.aborted()) throw failed(*agreement.aborted());
    if (!agreement.is_reached() && !incoming.cannot_listen().empty()) fail_to_listen();
    if (!agreement.is_reached()) throw out_of_time();
  }

  // Every five seconds, which peers are missing and why.
  void report_later() {
    report_timer_.expires_after(report_interval);
    report_timer_.async_wait([this](asio::error_code) {
      if (is_over_) return;
      using std::chrono::duration_cast, std::chrono::milliseconds;
      const auto now = Clock::now();
      log_line(concat(
          {waits_since(roster.names().shortly(rank()), duration_cast<milliseconds>(now - begun),
                       roster.describe_missing(now)),
           incoming.problem(), incoming.strangers()}));
      report_later();
    });
  }
  [[nodiscard]] CollectiveError out_of_time() const {
    CollectiveFailure failure = roster.timed_out(Clock::now(), options.startup_timeout);
    failure.reason += incoming.problem() + incoming.strangers();
    return failed(std::move(failure));
  }

  // Another socket has had this worker's port all the time.
  [[noreturn]] void fail_to_listen() const {
    const std::string reason =
        concat({incoming.cannot_listen(), ", and has had it for all of the ",
                options.startup_timeout.count(), " ms of CommunicationOptions::startup_timeout"});
    if (!was_connected_) throw ConfigurationError(reason);
    throw failed(roster.failed(rank(), reason));
  }

  [[nodiscard]] CollectiveError failed(CollectiveFailure failure) const {
    failure.operation = "start-up";
    failure.seconds = seconds();
    return CollectiveError(std::move(failure));
  }

  void tear_down() {
    asio::error_code ignored;
    incoming.close();
    is_over_ = true;
    report_timer_.cancel();
    ask_timer_.cancel();
    outgoing.close();
    for (const Place& place : places)
      for (const TcpConnection::Pointer& link : place.links)
        if (link != nullptr) {
          link->over = true;
          link->timer.cancel();
          link->socket.cancel(ignored);
        }
    io.restart();
    io.poll();
  }

  void begin() {
    for (int peer = 0; peer < rank(); ++peer)
      if (roster.is_contact(peer)) outgoing.start(peer, Place::control_link);
    if (rank() == 0 && world() > 1)  // see meet_myself
      outgoing.start(0, Place::control_link, ask_interval);
    ask_later();
    consider_done();
  }
  /// This worker gives up, or passes on that another has.
  void tell_others(const Error& error) {
    if (const auto& aborted = agreement.aborted()) return pass_on(*aborted);
    const std::string_view text = std::string_view(error.what()).substr(0, ControlFrame::longest);
    const ControlFrame frame = agreement.report(error, text);
    for (int other = 0; other < world(); ++other) send(other, frame, text);
    for (const Pointer& guest : incoming.guests())
      if (guest->contends && guest->link == Place::control_link) send(*guest, frame, text);
    if (refused_guest) send(*refused_guest, frame, text);
  }

  // --- the end of a handshake --------------------------------------------------------------------

  void conclude(const Pointer& connection) {
    TcpConnection& c = *connection;
    const Handshake& handshake = *c.handshake;
    const Hello& theirs = handshake.theirs();
    c.incarnation = theirs.incarnation;
    const bool has_introduced_itself = handshake.outcome() == Handshake::Outcome::agreed ||
                                       handshake.outcome() == Handshake::Outcome::refused;
    if (c.incoming && c.socket.tls != nullptr && has_introduced_itself) {
      const std::string denial = c.socket.tls->denies(roster.names().number(theirs.from));
      if (!denial.empty()) return doubt_identity(connection, theirs.from, denial);
    }
    const bool unproved = secret.is_set() && !handshake.is_authenticated();
    switch (handshake.outcome()) {
      case Handshake::Outcome::open:
        return;
      case Handshake::Outcome::myself:
        return meet_myself(connection);
      case Handshake::Outcome::stranger:
        if (!handshake.problem().empty()) return fail(connection, handshake.problem());
        return fail(connection, c.incoming ? speaks_otherwise : is_another_program);
      case Handshake::Outcome::refused:
        if (c.incoming) return refuse_guest(connection);
        if (unproved) return doubt_proof(connection, handshake.problem());
        if (handshake.is_authenticated()) return refuse_peer(c.peer, handshake.problem());
        return doubt_fit(connection, handshake.problem());
      case Handshake::Outcome::at_work:
        return fail(connection, handshake.problem());
      case Handshake::Outcome::agreed:
        if (unproved) return fail(connection, has_not_proved);
        break;
    }
    if (c.incoming) {
      c.peer = theirs.from;
      c.link = theirs.channel == Hello::Channel::control ? Place::control_link
                                                         : Place::first_data_link + theirs.lane;
      // A probe is answered by now.
      if (theirs.channel == Hello::Channel::probe) return incoming.drop(connection);
      const std::string name = roster.names().shortly(c.peer);
      if (c.peer < rank()) return fail(connection, claims_to_be(name, has_this_name));
      if (!roster.is_contact(c.peer)) return fail(connection, claims_to_be(name, is_no_contact));
      const std::size_t links = place(c.peer).links.size();
      if (c.link >= links)
        return fail(connection,
                    claims_to_be(name, has_more_connections(links - Place::first_data_link)));
    } else if (theirs.from != c.peer) {
      return doubt_fit(connection, answers_as(theirs.from));
    }
    adopt(connection);
  }

  void fail(const Pointer& connection, const std::string& problem) {
    if (connection->incoming) return incoming.turn_away(connection, problem);
    connection->discard();
    outgoing.forget(connection);
    if (connection->peer == rank()) {
      StartupRoster::Peer& own = roster.peer(rank());
      if (connection->unresolved) {
        own.complaint = problem;
        own.complainant = rank();
      } else if (own.complainant == rank()) {
        own.complainant = -1;
      }
      if (!met_myself_) outgoing.start(rank(), connection->link, ask_interval);
      return;
    }
    roster.peer(connection->peer).problem = problem;
    outgoing.start_again(connection->peer, connection->link);
  }

  // Two processes that both claim rank 0 call no peer and would wait for each other's; so rank 0
  // looks which process answers at its address. And a socket that connects to a free port of its
  // host may be given that very port, and so meet itself.
  void meet_myself(const Pointer& connection) {
    if (!connection->incoming) return fail(connection, "connection refused");
    met_myself_ = true;
    incoming.drop(connection);
  }

  // A process that has a lower rank's port and proves nothing may be a stranger: the true peer may
  // still come.
  void doubt_proof(const Pointer& connection, const std::string& problem) {
    name_doubt(connection->peer, problem, tries_again);
    fail(connection, problem);
  }

  // TLS says that this is not the peer it should be; the true one may still come.
  void doubt_encryption(const Pointer& connection, const std::string& problem) {
    if (!connection->incoming)
      name_doubt(connection->peer, problem, tries_again);
    else
      strangers_.turned_away("", connection->host(), problem);
    fail(connection, problem);
  }

  // The guest has the certificate of another worker.
  void doubt_identity(const Pointer& guest, int claimed, const std::string& denial) {
    if (claimed > rank() && claimed < world() && place(claimed).control() == nullptr)
      roster.peer(claimed).turned_away = was_turned_away(guest->host(), concat({" ", denial}));
    doubt_encryption(guest, denial);
  }

  // --- places ------------------------------------------------------------------------------------

  // The connection stands. It replaces an older one: a process that connects again has lost or left
  // that. But when another process has the place, it depends on whether that one still lives.
  void adopt(const Pointer& connection) {
    TcpConnection& c = *connection;
    Place& p = place(c.peer);
    if (c.incoming && !c.prevails && p.is_anothers(c.incarnation)) return contend(connection);
    if (c.incoming)
      incoming.forget(connection);
    else
      outgoing.forget(connection);
    c.handshake.reset();
    c.timer.cancel();
    c.contends = false;
    p.put(c.link, connection, [&](std::size_t link, const Pointer& former) {
      former->discard();
      if (link != c.link && !c.incoming) outgoing.start(c.peer, link);
    });
    outgoing.succeed(c.peer);
    claims.settle(c.peer);
    StartupRoster::Peer& peer = roster.peer(c.peer);
    peer.incarnation = c.incarnation;
    peer.connected = p.is_complete();
    peer.problem.clear();
    peer.turned_away.clear();
    if (c.link == Place::control_link) {
      agreement.begin(c.peer, Clock::now());
      watch(connection);
      if (!c.incoming) call_for_data(c.peer);
    }
    consider_done();
  }

  // The connection for control comes first: while a peer is not there, one is enough to try.
  void call_for_data(int to) {
    const auto& links = place(to).links;
    for (std::size_t link = Place::first_data_link; link < links.size(); ++link)
      if (links[link] == nullptr && !outgoing.is_calling(to, link)) outgoing.start(to, link);
  }

  void lose(int peer) {
    Place& p = place(peer);
    for (Pointer& link : p.links) {
      if (link != nullptr) link->discard();
      link = nullptr;
    }
    outgoing.stop(peer);  // those for data begin again when control stands
    agreement.lose(peer);
    roster.peer(peer).connected = false;
    roster.peer(peer).problem = closed_again;
    if (peer < rank()) outgoing.start_again(peer, Place::control_link);
  }

  // --- processes that claim a place and do not fit, and two that claim the same ------------------

  // The guest has our answer, and so can say why. A guest that proves that it belongs to this
  // cluster and does not fit ends the start-up at once. Without a proof, any process may claim the
  // place that this worker waits for: it is turned away and named, and ends the start-up only if
  // it keeps coming back (with a secret, not even then).
  void refuse_guest(const Pointer& guest) {
    const Handshake& handshake = *guest->handshake;
    const Hello& theirs = handshake.theirs();
    const bool claims_place = theirs.from > rank() && theirs.from < world() &&
                              theirs.to == rank() &&
                              (theirs.version != mine.version || has_its_address(theirs));
    const bool is_free = claims_place && place(theirs.from).control() == nullptr;
    if (claims_place && (handshake.is_authenticated() ||
                         (is_free && !secret.is_set() &&
                          claims.ends_for_callee(theirs.from, theirs.incarnation, Clock::now())))) {
      refused_guest = guest;
      return refuse_peer(theirs.from, handshake.problem());
    }
    if (is_free) {
      StartupRoster::Peer& claimed = roster.peer(theirs.from);
      const std::string problem = was_turned_away(
          guest->host(), concat({", which claims to be it, ", handshake.problem()}));
      if (claimed.turned_away.empty())
        log_line(concat({roster.names()(theirs.from), " ", problem}));
      claimed.problem = claimed.turned_away = problem;
    } else if (theirs.from == rank() && theirs.addresses == mine.addresses && !twin_named_) {
      twin_named_ = true;
      log_line(concat({guest->host(), " ", handshake.problem()}));
    }
    incoming.turn_away(guest, handshake.problem());
  }

  // The process at a peer's address does not fit. It may be another program that has the address
  // for a while; so this worker asks again, until both have waited long enough for another process
  // to come.
  void doubt_fit(const Pointer& connection, const std::string& problem) {
    const TcpConnection& c = *connection;
    if (claims.ends_for_caller(c.peer, c.incarnation, c.verdict, Clock::now()))
      return refuse_peer(c.peer, problem);
    name_doubt(c.peer, problem, asks_again);
    if (c.peer != rank()) roster.peer(c.peer).problem = problem;
    connection->discard();
    outgoing.forget(connection);
    outgoing.start(c.peer, c.link, StartupClaims::interval);
  }

  // Says once what is wrong with the process at a peer's address.
  void name_doubt(int peer, const std::string& problem, std::string_view consequence) {
    StartupRoster::Peer& claimed = roster.peer(peer);
    if (claimed.turned_away.empty())
      log_line(concat({roster.names()(peer), " ", problem, consequence}));
    claimed.turned_away = problem;
  }

  // A process that was killed has closed its connections, or does not answer; a worker that was
  // started in its place gets it. When the older process answers and is still there a moment
  // later, there are two.
  void contend(const Pointer& guest) {
    const auto& guests = incoming.guests();
    const auto earlier = std::find_if(guests.begin(), guests.end(), [&](const Pointer& g) {
      return g->contends && g->peer == guest->peer && g->link == guest->link;
    });
    if (earlier != guests.end()) incoming.drop(*earlier);
    guest->contends = true;
    guest->contends_since = Clock::now();
    agreement.ask_whether_it_lives(guest->peer);
    contest_later(guest);
  }

  [[nodiscard]] bool has_its_address(const Hello& theirs) const {
    const auto from = static_cast<std::size_t>(theirs.from);
    return from < theirs.addresses.size() && theirs.addresses[from] == mine.addresses[from];
  }

  void contest_later(const Pointer& guest) {
    guest->timer.expires_after(Place::contest_interval);
    guest->timer.async_wait([this, guest](asio::error_code) {
      if (!guest->over) contest(guest);
    });
  }

  void contest(const Pointer& guest) {
    if (is_closed_by_peer(guest->socket.native_handle())) {  // there may be more to read before
      incoming.drop(guest);
      return consider_done();
    }
    const Place& its = place(guest->peer);
    switch (its.contest(guest->incarnation, roster.peer(guest->peer).answered,
                        Clock::now() - guest->contends_since)) {
      case Place::Contest::goes_on:
        return contest_later(guest);
      case Place::Contest::prevails:
        guest->prevails = true;
        return adopt(guest);
      case Place::Contest::twins:
        refusal = is_there_twice(roster.names()(guest->peer), its.control()->host(), guest->host());
    }
  }

  // --- what StartupAgreement says, until all connections stand or one rank gives up --------------

  // Now and then, asks the peers that are connected whether they live, and what they wait for.
  void ask_later() {
    ask_timer_.expires_after(roster.ask_interval());
    ask_timer_.async_wait([this](asio::error_code) {
      if (is_over_) return;
      for (int other = 0; other < world(); ++other)
        if (roster.is_contact(other)) agreement.ask(other);
      ask_later();
    });
  }
  // Reads the peer's connection for control from now on.
  void watch(const Pointer& control) {
    control->socket.async_wait(TcpSocket::wait_read, [this, control](asio::error_code) {
      if (!control->over) read(control);
    });
  }

  // Continues the agreement unless two processes contend for a place.
  void consider_done() {
    const auto& guests = incoming.guests();
    if (std::none_of(guests.begin(), guests.end(),
                     [](const Pointer& guest) { return guest->contends; }))
      agreement.consider();
  }

  void pass_on(const CollectiveFailure& failure) {
    const std::string_view text = std::string_view(failure.reason).substr(0, ControlFrame::longest);
    const ControlFrame frame{.type = ControlFrame::Type::abort,
                             .value = failure.failed_rank,
                             .extra = static_cast<std::int32_t>(failure.code),
                             .length = static_cast<std::uint32_t>(text.size())};
    for (int other = 0; other < world(); ++other)
      if (agreement.is_news_for(other)) send(other, frame, text);
  }

  void read(const Pointer& control) {
    std::array<char, 1024> chunk;
    for (;;) {
      asio::error_code error;
      const std::size_t n = control->socket.read_some(asio::buffer(chunk), error);
      if (error == asio::error::would_block) return watch(control);
      if (error) return lose(control->peer);
      const auto taken = agreement.take(control->peer, {chunk.data(), n}, Clock::now());
      if (taken == StartupAgreement::Taken::garbage) return lose(control->peer);
      consider_done();
      if (agreement.is_reached() || agreement.aborted()) return;
    }
  }

  const int listen_socket_;
  const bool was_connected_;
  Descriptor listener_;
  RetiredSockets retired_;
  TcpConnection::Timer report_timer_{io};
  bool is_over_ = false;
  TcpConnection::Timer ask_timer_{io};
  bool twin_named_ = false;  // another process with this worker's rank; which has been said
  bool met_myself_ = false;
  RareLog strangers_;  // that are turned away for their TLS
};

}}}  // namespace lockstep::detail
