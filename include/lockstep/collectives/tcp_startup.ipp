// How the workers find each other: see Tcp. Everything happens on the calling thread, in the handlers of one io_context.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/authentication.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/frame.hpp"
#include "lockstep/collectives/handshake.hpp"
#include "lockstep/collectives/hello.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp_listener.ipp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// The connections to one peer. (Deques, here and below, because sockets that are not open cannot be moved without a warning of g++.)
struct TcpLinks {
  explicit TcpLinks(asio::io_context& io) : control(io) {}

  std::deque<TcpSocket> data;
  TcpSocket control;
};

/// "rank 1 (127.0.0.1:2222)"
LOCKSTEP_INLINE std::string peer_name(const std::vector<std::string>& addresses, int rank) {
  return concat({"rank ", rank, " (", addresses[static_cast<std::size_t>(rank)], ")"});
}

class TcpStartup : public std::enable_shared_from_this<TcpStartup> {
 public:
  TcpStartup(asio::io_context& io, const Rendezvous& rendezvous, const CommunicationOptions& options)
      : io_(io),
        options_(options),
        listen_socket_(rendezvous.listen_socket),
        secret_(ClusterSecret::given_or_from_environment(rendezvous.secret)),
        begin_(Clock::now()),
        acceptor_(io),
        resolver_(io),
        report_timer_(std::make_shared<Connection>(io)),
        ask_timer_(std::make_shared<Connection>(io)),
        peers_(rendezvous.addresses.size(), Peer(1 + options.data_connections())) {
    mine_.from = rendezvous.rank;
    mine_.addresses = rendezvous.addresses;
    mine_.properties = rendezvous.properties;
    mine_.incarnation = RandomKey(static_cast<std::uint64_t>(begin_.time_since_epoch().count()))
                            .fold_in(static_cast<std::uint64_t>(::getpid()))
                            .fold_in(reinterpret_cast<std::uintptr_t>(this))
                            .value();
  }

  /// Returns the connections by rank; this rank itself has none.
  std::deque<TcpLinks> run() {
    try {
      listen_on_own_port(acceptor_, mine_.addresses[static_cast<std::size_t>(rank())], listen_socket_,
                         2 * most_calls());
      accept();
      for (int peer = 0; peer < rank(); ++peer) dial(peer, control_link);
      if (rank() == 0 && world() > 1)  // see meet_myself
        dial(0, control_link, ask_interval);
      report_later();
      ask_later();
      consider_done();
      const auto deadline = begin_ + options_.startup_timeout;
      while (!done_ && !refusal_ && !aborted_ && Clock::now() < deadline) io_.run_one_until(deadline);
      if (refusal_) throw ConfigurationError(*refusal_);
      if (aborted_) throw CollectiveError(*aborted_);
      if (!done_) throw CollectiveError(timed_out());
    } catch (const Error& error) {
      tell_others(error);
      tear_down();
      throw;
    } catch (...) {
      tear_down();
      throw;
    }
    tear_down();
    std::deque<TcpLinks> links;
    for (Peer& peer : peers_) {
      links.emplace_back(io_);
      if (peer.control() == nullptr) continue;
      links.back().control = std::move(peer.control()->socket);
      for (std::size_t link = first_data_link; link < peer.links.size(); ++link)
        links.back().data.push_back(std::move(peer.links[link]->socket));
    }
    return links;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Socket = TcpSocket;
  using Resolver = asio::ip::basic_resolver<asio::ip::tcp, TcpExecutor>;
  using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, TcpExecutor>;
  using ErrorCode = asio::error_code;

  static constexpr auto handshake_timeout = std::chrono::seconds(10);
  static constexpr auto report_interval = std::chrono::seconds(5);
  static constexpr auto ask_interval = std::chrono::seconds(1);
  static constexpr auto silence = std::chrono::seconds(3);  // of a peer that is asked each second: it hangs
  static constexpr auto contest_interval = std::chrono::milliseconds(200);
  static constexpr auto contest_timeout = std::chrono::seconds(2);

  // The connections to a peer have numbers: the one for control, and those for data.
  static constexpr std::size_t control_link = 0;
  static constexpr std::size_t first_data_link = 1;

  struct Connection {
    explicit Connection(asio::io_context& io) : socket(io), timer(io) {}

    Socket socket;
    Timer timer;
    bool incoming = false;
    bool over = false;  // failed, replaced, or not wanted any more
    int peer = -1;
    std::size_t link = 0;
    std::vector<asio::ip::tcp::endpoint> endpoints;  // still to be tried, the next one last
    std::string problem;
    std::optional<Handshake> handshake;
    std::uint64_t incarnation = 0;
    bool ready_sent = false;
    bool contends = false;  // for a place that another process has
    bool prevails = false;  // has contended, and that other one is gone
    Clock::time_point contends_since;
  };
  using ConnectionPointer = std::shared_ptr<Connection>;

  /// What happens next to a connection.
  struct Handler {
    std::shared_ptr<TcpStartup> self;
    ConnectionPointer connection;
    void (TcpStartup::*next)(const ConnectionPointer&, ErrorCode);

    void operator()(ErrorCode error) const {
      if (!self->stopped_ && !connection->over) ((*self).*next)(connection, error);
    }
  };
  Handler then(const ConnectionPointer& connection, void (TcpStartup::*next)(const ConnectionPointer&, ErrorCode)) {
    return {shared_from_this(), connection, next};
  }

  struct Peer {
    explicit Peer(std::size_t count) : links(count) {}

    [[nodiscard]] const ConnectionPointer& control() const noexcept { return links[control_link]; }
    [[nodiscard]] bool is_connected() const noexcept {
      return std::find(links.begin(), links.end(), nullptr) == links.end();
    }

    std::vector<ConnectionPointer> links;  // null while it does not stand
    std::string problem;
    bool ready = false;
    std::string turned_away;  // what was wrong with somebody who claimed to be it; which has been said
    bool answered = false;    // since a contender has come
    Clock::time_point heard;  // when it last answered
    int waits_for = -1;       // what it answered
    std::chrono::milliseconds delay{50};
  };

  [[nodiscard]] int rank() const noexcept { return mine_.from; }
  [[nodiscard]] int world() const noexcept { return static_cast<int>(peers_.size()); }
  // Connections that all peers together may make to this worker at once.
  [[nodiscard]] int most_calls() const noexcept { return world() * static_cast<int>(1 + options_.data_connections()); }
  [[nodiscard]] Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::string name(int rank) const { return peer_name(mine_.addresses, rank); }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  static void configure(Socket& socket) {
    ErrorCode ignored;
    socket.non_blocking(true, ignored);
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
    const auto set = [&](int option, int value) {
      ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
    };
    set(TCP_KEEPIDLE, 10);
    set(TCP_KEEPINTVL, 5);
    set(TCP_KEEPCNT, 4);
#endif
  }

  // --- connections to this worker ----------------------------------------------------------------------------------

  void accept() {
    auto guest = std::make_shared<Connection>(io_);
    guest->incoming = true;
    acceptor_.async_accept(guest->socket, then(guest, &TcpStartup::accepted));
  }

  void accepted(const ConnectionPointer& guest, ErrorCode error) {
    if (error) {  // out of descriptors, for example
      guest->timer.expires_after(std::chrono::milliseconds(100));
      guest->timer.async_wait(then(guest, &TcpStartup::accept_again));
      return;
    }
    configure(guest->socket);
    if (guests_.size() >= std::max<std::size_t>(256, static_cast<std::size_t>(most_calls()))) {
      const auto oldest = std::find_if(guests_.begin(), guests_.end(), [](const auto& g) { return !g->contends; });
      if (oldest != guests_.end()) drop_guest(*oldest);
    }
    guests_.push_back(guest);
    guest->handshake.emplace(Handshake::callee(mine_, secret_));
    limit_handshake(guest);
    pump(guest, {});
    accept();
  }

  void accept_again(const ConnectionPointer&, ErrorCode) { accept(); }

  // A copy: the list may hold the last other one.
  void drop_guest(ConnectionPointer guest) {  // NOLINT(performance-unnecessary-value-param)
    discard(guest);
    forget(guest);
  }

  void drop_stranger(const ConnectionPointer& guest, std::string_view what) {
    ++strangers_;
    stranger_ = concat({host_of(guest), " ", what});
    drop_guest(guest);
  }

  static std::string host_of(const ConnectionPointer& connection) {
    ErrorCode error;
    const auto endpoint = connection->socket.remote_endpoint(error);
    return error ? "somebody" : endpoint.address().to_string();
  }

  // --- connections to lower ranks ----------------------------------------------------------------------------------

  // The connection for control comes first: while a peer is not there, one is enough to try.
  void dial_data(int to) {
    for (std::size_t link = first_data_link; link < peer(to).links.size(); ++link) {
      const bool is_dialled = std::any_of(dials_.begin(), dials_.end(),
                                          [&](const auto& dial) { return dial->peer == to && dial->link == link; });
      if (peer(to).links[link] == nullptr && !is_dialled) dial(to, link);
    }
  }

  void dial(int to, std::size_t link, std::chrono::milliseconds delay = {}) {
    auto connection = std::make_shared<Connection>(io_);
    connection->peer = to;
    connection->link = link;
    dials_.push_back(connection);
    connection->timer.expires_after(delay);
    connection->timer.async_wait(then(connection, &TcpStartup::resolve));
  }

  void resolve(const ConnectionPointer& connection, ErrorCode) {
    const Address address = parse_address(mine_.addresses[static_cast<std::size_t>(connection->peer)]);
    ErrorCode error;
    const auto numeric = asio::ip::make_address(address.host, error);
    if (!error) {
      connection->endpoints.emplace_back(numeric, address.port);
      return connect_next(connection);
    }
    resolver_.async_resolve(
        address.host, concat({address.port}), Resolver::numeric_service,
        [self = shared_from_this(), connection](ErrorCode failed, const Resolver::results_type& found) {
          if (self->stopped_ || connection->over) return;
          for (const auto& entry : found) connection->endpoints.push_back(entry.endpoint());
          std::reverse(connection->endpoints.begin(), connection->endpoints.end());
          connection->problem = concat({"its name does not resolve: ", failed ? failed.message() : "no address"});
          self->connect_next(connection);
        });
  }

  void connect_next(const ConnectionPointer& connection) {
    if (connection->endpoints.empty()) return fail(connection, connection->problem);
    const auto endpoint = connection->endpoints.back();
    connection->endpoints.pop_back();
    ErrorCode ignored;
    connection->socket.close(ignored);
    connection->problem = concat({"does not answer (nothing comes back from ", endpoint.address().to_string(), ")"});
    limit_handshake(connection);
    connection->socket.async_connect(endpoint, then(connection, &TcpStartup::connected));
  }

  void connected(const ConnectionPointer& connection, ErrorCode error) {
    if (!connection->socket.is_open()) error = asio::error::operation_aborted;  // out of time just now
    if (error) {
      if (error != asio::error::operation_aborted) connection->problem = lower_case(error.message());
      return connect_next(connection);
    }
    configure(connection->socket);
    connection->handshake.emplace(
        connection->link == control_link
            ? Handshake::caller(mine_, secret_, connection->peer, Hello::Channel::control)
            : Handshake::caller(mine_, secret_, connection->peer, Hello::Channel::data,
                                static_cast<std::uint16_t>(connection->link - first_data_link)));
    connection->problem = "accepts connections, but is silent";
    pump(connection, {});
  }

  static std::string lower_case(std::string text) {  // "Connection refused" stands in the middle of a sentence
    if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
    return text;
  }

  // --- the handshake -----------------------------------------------------------------------------------------------

  void limit_handshake(const ConnectionPointer& connection) {
    connection->timer.expires_after(handshake_timeout);
    connection->timer.async_wait(then(connection, &TcpStartup::out_of_time));
  }

  void out_of_time(const ConnectionPointer& connection, ErrorCode error) {
    if (error) return;  // the timer was set anew, or is not needed any more
    if (connection->incoming)
      drop_stranger(connection, "connected, but did not complete the handshake");
    else if (!connection->endpoints.empty())
      connection->socket.close(error);  // its handler goes on with the next endpoint
    else
      fail(connection, connection->problem);
  }

  void pump_later(const ConnectionPointer& connection, Socket::wait_type what) {
    connection->socket.async_wait(what, then(connection, &TcpStartup::pump));
  }

  // Sends what is to be sent and reads what the handshake waits for, as far as both go without waiting.
  void pump(const ConnectionPointer& connection, ErrorCode error) {
    Connection& c = *connection;
    Handshake& handshake = *c.handshake;
    std::array<char, 4096> chunk;
    for (;;) {
      while (!handshake.out().empty()) {
        handshake.sent(c.socket.write_some(asio::buffer(handshake.out()), error));
        if (error == asio::error::would_block) return pump_later(connection, Socket::wait_write);
        if (error) return fail(connection, "closes the connection at once");
      }
      if (handshake.outcome() != Handshake::Outcome::open) return conclude(connection);
      const std::size_t n =
          c.socket.read_some(asio::buffer(chunk.data(), std::min(chunk.size(), handshake.wanted())), error);
      if (error == asio::error::would_block) return pump_later(connection, Socket::wait_read);
      if (error) return fail(connection, "closes the connection during the handshake");
      handshake.take({chunk.data(), n});
    }
  }

  void conclude(const ConnectionPointer& connection) {
    Connection& c = *connection;
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
        return unproved ? doubt(connection, handshake.problem()) : refuse_peer(c.peer, handshake.problem());
      case Handshake::Outcome::agreed:
        if (unproved) return fail(connection, "has not proved that it knows the cluster secret");
        break;
    }
    if (c.incoming) {
      c.peer = theirs.from;
      c.link = theirs.channel == Hello::Channel::control ? control_link : first_data_link + theirs.lane;
      if (c.peer < rank()) return refuse_peer(c.peer, "connects to a higher rank, which it must not");
      if (c.link >= peer(c.peer).links.size())
        return refuse_peer(c.peer, concat({"makes more connections for data than this worker, which has ",
                                           options_.data_connections(), " (CommunicationOptions::connections)"}));
    } else if (theirs.from != c.peer) {
      return refuse_peer(c.peer, concat({"answers as rank ", theirs.from}));
    }
    adopt(connection);
  }

  // Two processes that both claim rank 0 connect to nobody and would wait for each other's peers; so rank 0 looks who answers at
  // its address. And a socket that connects to a free port of its own host may be given that very port, and so meet itself.
  void meet_myself(const ConnectionPointer& connection) {
    if (!connection->incoming) return fail(connection, "connection refused");
    met_myself_ = true;
    drop_guest(connection);
  }

  // The guest has our answer, and so can say why. Whoever claims the place that this worker waits for is meant to be here, and
  // ends the start-up; anybody else lost his way. Where there is a secret, the claim alone ends nothing.
  void refuse_guest(const ConnectionPointer& guest) {
    const Handshake& handshake = *guest->handshake;
    const Hello& theirs = handshake.theirs();
    const auto from = static_cast<std::size_t>(theirs.from);
    const bool has_place = theirs.version == mine_.version && theirs.from > rank() && from < peers_.size() &&
                           from < theirs.addresses.size() && theirs.addresses[from] == mine_.addresses[from] &&
                           theirs.to == rank();
    if (has_place && secret_.is_set() && !handshake.is_authenticated()) {
      Peer& claimed = peer(theirs.from);
      const std::string problem =
          concat({"was turned away: ", host_of(guest), ", which claims to be it, ", handshake.problem()});
      if (claimed.turned_away.empty()) log_line(concat({name(theirs.from), " ", problem}));
      claimed.problem = claimed.turned_away = problem;
    } else if (has_place) {
      return refuse_peer(theirs.from, handshake.problem());
    } else if (theirs.from == rank() && theirs.addresses == mine_.addresses && !twin_named_) {
      twin_named_ = true;
      log_line(concat({host_of(guest), " ", handshake.problem()}));
    }
    drop_stranger(guest, handshake.problem());
  }

  // Whoever has a lower rank's port and proves nothing may be somebody else: the true one may still come.
  void doubt(const ConnectionPointer& connection, const std::string& problem) {
    Peer& claimed = peer(connection->peer);
    if (claimed.turned_away.empty())
      log_line(
          concat({name(connection->peer), " ", problem, "; this worker tries again until the start-up times out"}));
    claimed.turned_away = problem;
    fail(connection, problem);
  }

  void refuse_peer(int peer, std::string_view problem) {
    refusal_ = concat({name(peer), " ", problem,
                       "; all workers need the same program, the same cluster in TF_CONFIG and, if any, the same "
                       "LOCKSTEP_CLUSTER_SECRET"});
  }

  // The connection stands. It replaces an older one: whoever connects again has lost or left that. But when another process
  // has the place, it depends on whether that one still lives.
  void adopt(const ConnectionPointer& connection) {
    Connection& c = *connection;
    Peer& p = peer(c.peer);
    const ConnectionPointer& older = p.control();
    if (c.incoming && !c.prevails && older != nullptr && older->incarnation != c.incarnation)
      return contend(connection);
    forget(connection);
    c.handshake.reset();
    c.timer.cancel();
    c.contends = false;
    if (p.links[c.link] != nullptr) discard(p.links[c.link]);
    p.links[c.link] = connection;
    for (std::size_t link = 0; link < p.links.size(); ++link) {
      ConnectionPointer& other = p.links[link];
      if (other == nullptr || other->incarnation == c.incarnation) continue;
      discard(other);
      other = nullptr;
      if (!c.incoming) dial(c.peer, link);
    }
    p.problem.clear();
    p.turned_away.clear();
    p.delay = std::chrono::milliseconds(50);
    if (c.link == control_link) {
      p.ready = false;
      p.heard = Clock::now();
      p.waits_for = -1;
      watch(connection);
      if (!c.incoming) dial_data(c.peer);
    }
    consider_done();
  }

  // A process that was killed has closed its connections, or does not answer; a worker that was started in its place gets it.
  // When the older process answers and is still there a moment later, there are two.
  void contend(const ConnectionPointer& guest) {
    const auto earlier = std::find_if(guests_.begin(), guests_.end(), [&](const auto& g) {
      return g->contends && g->peer == guest->peer && g->link == guest->link;
    });
    if (earlier != guests_.end()) drop_guest(*earlier);
    guest->contends = true;
    guest->contends_since = Clock::now();
    peer(guest->peer).answered = false;
    send(*peer(guest->peer).control(), {.type = ControlFrame::Type::probe});
    contest_later(guest);
  }

  void contest_later(const ConnectionPointer& guest) {
    guest->timer.expires_after(contest_interval);
    guest->timer.async_wait(then(guest, &TcpStartup::contest));
  }

  void contest(const ConnectionPointer& guest, ErrorCode) {
    const Peer& p = peer(guest->peer);
    const ConnectionPointer& older = p.control();
    const bool is_there = older != nullptr && older->incarnation != guest->incarnation;
    if (is_there && p.answered) {
      refusal_ =
          concat({name(guest->peer), " is there twice: two processes, on ", host_of(older), " and ", host_of(guest),
                  ", have one place in the cluster; give each worker its own task index in TF_CONFIG"});
      return;
    }
    guest->prevails = !is_there || Clock::now() - guest->contends_since >= contest_timeout;
    if (guest->prevails)
      adopt(guest);
    else
      contest_later(guest);
  }

  void discard(const ConnectionPointer& connection) {
    connection->over = true;
    connection->timer.cancel();
    ErrorCode ignored;
    connection->socket.close(ignored);
  }

  // Takes it off the list of those that do not stand yet.
  void forget(const ConnectionPointer& connection) {
    auto& list = connection->incoming ? guests_ : dials_;
    list.erase(std::remove(list.begin(), list.end(), connection), list.end());
  }

  void fail(const ConnectionPointer& connection, const std::string& problem) {
    if (connection->incoming) return drop_stranger(connection, problem);
    discard(connection);
    forget(connection);
    if (connection->peer == rank()) {
      if (!met_myself_) dial(rank(), connection->link, ask_interval);
      return;
    }
    peer(connection->peer).problem = problem;
    dial_later(connection->peer, connection->link);
  }

  void dial_later(int to, std::size_t link) {
    Peer& p = peer(to);
    dial(to, link, p.delay);
    p.delay = std::min(2 * p.delay, std::chrono::milliseconds(1000));
  }

  // --- agreeing that all connections stand -------------------------------------------------------------------------

  void watch(const ConnectionPointer& control) {
    control->socket.async_wait(Socket::wait_read, then(control, &TcpStartup::look));
  }

  // A frame that belongs to the time after start-up stays where it is, for Tcp.
  void look(const ConnectionPointer& control, ErrorCode error) {
    FrameBytes bytes{};
    const std::size_t n = control->socket.receive(asio::buffer(bytes), asio::socket_base::message_peek, error);
    if (error == asio::error::would_block) return watch(control);
    if (error) return lose(control);
    ControlFrame frame;
    if (n == frame_bytes && !ControlFrame::decode(bytes, frame)) return lose(control);
    if (n < frame_bytes) {
      control->timer.expires_after(std::chrono::milliseconds(10));
      control->timer.async_wait(then(control, &TcpStartup::look));
      return;
    }
    Peer& p = peer(control->peer);
    if (frame.type == ControlFrame::Type::abort) return read_abort(control, frame);
    if (frame.type == ControlFrame::Type::ready && rank() == 0) {
      p.ready = true;
    } else if (frame.type == ControlFrame::Type::go && control->peer == 0) {
      go_ = true;
    } else if (frame.type == ControlFrame::Type::probe) {
      send(*control, {.type = ControlFrame::Type::waiting, .value = first_missing()});
    } else if (frame.type == ControlFrame::Type::waiting) {
      p.answered = true;
      p.heard = Clock::now();
      p.waits_for = frame.value;
    } else {
      return;
    }
    control->socket.receive(asio::buffer(bytes), 0, error);
    if (!go_) watch(control);
    consider_done();
  }

  void read_abort(const ConnectionPointer& control, const ControlFrame& frame) {
    std::string text(frame_bytes + frame.length, '\0');
    ErrorCode error;
    const std::size_t n = control->socket.receive(asio::buffer(text), 0, error);
    text.resize(error ? 0 : n);
    const int failed = frame.value >= 0 && frame.value < world() ? frame.value : control->peer;
    aborted_ = CollectiveFailure{
        .failed_rank = failed,
        .address = mine_.addresses[static_cast<std::size_t>(failed)],
        .operation = "start-up",
        .seconds = seconds(),
        .reason = text.size() > frame_bytes ? printable(text.substr(frame_bytes), ControlFrame::longest) : "gave up",
        .code = static_cast<ExitCode>(frame.extra)};
  }

  void lose(const ConnectionPointer& control) {
    const int lost = control->peer;
    Peer& p = peer(lost);
    for (ConnectionPointer& link : p.links) {
      if (link != nullptr) discard(link);
      link = nullptr;
    }
    p.ready = false;
    p.problem = "closed the connection again";
    if (lost == 0) go_ = false;
    if (lost < rank()) dial_later(lost, control_link);
  }

  void consider_done() {
    for (int other = 0; other < world(); ++other)
      if (other != rank() && !peer(other).is_connected()) return;
    for (const ConnectionPointer& guest : guests_)
      if (guest->contends) return;
    if (rank() != 0) {
      Connection& first = *peer(0).control();
      if (!first.ready_sent) send(first, {.type = ControlFrame::Type::ready});
      first.ready_sent = true;
      done_ = go_;
      return;
    }
    for (int other = 1; other < world(); ++other)
      if (!peer(other).ready) return;
    for (int other = 1; other < world(); ++other) send(*peer(other).control(), {.type = ControlFrame::Type::go});
    done_ = true;
  }

  // 16 bytes always fit into the buffer of a new connection. An error shows when the connection is read.
  static void send(Connection& control, const ControlFrame& frame, std::string_view text = {}) {
    const FrameBytes bytes = frame.encode();
    const std::array<asio::const_buffer, 2> parts{asio::buffer(bytes), asio::buffer(text)};
    ErrorCode ignored;
    control.socket.write_some(parts, ignored);
  }

  void tell_others(const Error& error) {
    if (aborted_) return;
    const std::string_view text = std::string_view(error.what()).substr(0, ControlFrame::longest);
    const auto* lost = dynamic_cast<const CollectiveError*>(&error);
    const ControlFrame frame{.type = ControlFrame::Type::abort,
                             .value = lost != nullptr ? lost->failed_rank() : rank(),
                             .extra = static_cast<std::int32_t>(error.exit_code()),
                             .length = static_cast<std::uint32_t>(text.size())};
    for (const Peer& p : peers_)
      if (p.control() != nullptr) send(*p.control(), frame, text);
    for (const ConnectionPointer& guest : guests_)
      if (guest->contends && guest->link == control_link) send(*guest, frame, text);
  }

  // --- reports -----------------------------------------------------------------------------------------------------

  // (rank, why) of those that are not there yet; when all are, of those that are not connected to all others.
  [[nodiscard]] std::vector<std::pair<int, std::string>> missing() {
    std::vector<std::pair<int, std::string>> result;
    for (int other = 0; other < world(); ++other) {
      const Peer& p = peer(other);
      if (other == rank()) continue;
      if (p.is_connected()) {
        const auto silent = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - p.heard);
        if (silent >= silence)
          result.emplace_back(other, concat({"is connected, but silent since ", silent.count(), " s"}));
        continue;
      }
      std::string why = !p.problem.empty() ? p.problem : other < rank() ? "no answer so far" : "has not connected yet";
      if (!p.turned_away.empty() && p.turned_away != p.problem) why += concat({"; before that it ", p.turned_away});
      result.emplace_back(other, std::move(why));
    }
    if (!result.empty()) return result;
    for (int other = rank() == 0 ? 1 : 0; other < (rank() == 0 ? world() : 1); ++other) {
      const Peer& p = peer(other);
      if (p.ready) continue;
      if (p.waits_for >= 0 && p.waits_for < world() && p.waits_for != rank() && p.waits_for != other)
        result.emplace_back(p.waits_for, concat({name(other), " waits for it"}));
      else
        result.emplace_back(other, "is here, but not yet connected to all others");
    }
    return result;
  }

  [[nodiscard]] int first_missing() {
    const auto all = missing();
    return all.empty() ? -1 : all.front().first;
  }

  // Each peer that is connected is asked whether it lives, and what it waits for.
  void ask_later() {
    ask_timer_->timer.expires_after(ask_interval);
    ask_timer_->timer.async_wait(then(ask_timer_, &TcpStartup::ask));
  }

  void ask(const ConnectionPointer&, ErrorCode) {
    for (const Peer& p : peers_)
      if (p.control() != nullptr) send(*p.control(), {.type = ControlFrame::Type::probe});
    ask_later();
  }

  void report_later() {
    report_timer_->timer.expires_after(report_interval);
    report_timer_->timer.async_wait(then(report_timer_, &TcpStartup::report));
  }

  void report(const ConnectionPointer&, ErrorCode) {
    std::string text;
    for (const auto& [other, why] : missing()) text += concat({text.empty() ? "" : "; ", name(other), ": ", why});
    if (strangers_ > 0) text += concat({"; turned away ", strangers_, " connections; the last one: ", stranger_});
    log_line(concat({"rank ", rank(), " waits since ", static_cast<int>(seconds()), " s for ", text}));
    report_later();
  }

  [[nodiscard]] CollectiveFailure timed_out() {
    CollectiveFailure failure{.operation = "start-up", .seconds = seconds()};
    std::string others;
    for (const auto& [other, why] : missing()) {
      if (failure.failed_rank < 0) {
        failure.failed_rank = other;
        failure.address = mine_.addresses[static_cast<std::size_t>(other)];
        failure.reason = why;
      } else {
        others += concat({"; ", name(other), ": ", why});
      }
    }
    failure.reason += concat({others, "; the workers must all be there within ", options_.startup_timeout.count(),
                              " ms (CommunicationOptions::startup_timeout)"});
    return failure;
  }

  void tear_down() {
    stopped_ = true;
    ErrorCode ignored;
    acceptor_.close(ignored);
    resolver_.cancel();
    report_timer_->timer.cancel();
    ask_timer_->timer.cancel();
    for (const ConnectionPointer& guest : guests_) discard(guest);
    for (const ConnectionPointer& dial : dials_) discard(dial);
    for (Peer& p : peers_)
      for (const ConnectionPointer& link : p.links)
        if (link != nullptr) {
          link->timer.cancel();
          link->socket.cancel(ignored);
        }
    io_.restart();
    io_.poll();
  }

  asio::io_context& io_;
  const CommunicationOptions options_;
  const int listen_socket_;
  const ClusterSecret secret_;
  const Clock::time_point begin_;
  Hello mine_;
  TcpAcceptor acceptor_;
  Resolver resolver_;
  const ConnectionPointer report_timer_;  // of these two only the timer is used
  const ConnectionPointer ask_timer_;
  std::vector<Peer> peers_;
  std::vector<ConnectionPointer> guests_;  // incoming ones, before the end of the handshake
  std::vector<ConnectionPointer> dials_;   // outgoing ones
  std::size_t strangers_ = 0;
  std::string stranger_;
  std::optional<std::string> refusal_;
  std::optional<CollectiveFailure> aborted_;
  bool met_myself_ = false;
  bool twin_named_ = false;  // another process with this worker's rank; which has been said
  bool go_ = false;
  bool done_ = false;
  bool stopped_ = false;
};

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
