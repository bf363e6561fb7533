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
#include <asio/ip/v6_only.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/frame.hpp"
#include "lockstep/collectives/handshake.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/random.hpp"

namespace lockstep::inline LOCKSTEP_ABI {
namespace detail {

/// The connections to one peer.
struct TcpLinks {
  asio::ip::tcp::socket data;
  asio::ip::tcp::socket control;
};

/// "rank 1 (127.0.0.1:2222)"
LOCKSTEP_INLINE std::string peer_name(const std::vector<std::string>& addresses, int rank) {
  return "rank " + std::to_string(rank) + " (" + addresses[static_cast<std::size_t>(rank)] + ")";
}

class TcpStartup : public std::enable_shared_from_this<TcpStartup> {
 public:
  TcpStartup(asio::io_context& io, const Rendezvous& rendezvous, const CommunicationOptions& options)
      : io_(io),
        options_(options),
        listen_socket_(rendezvous.listen_socket),
        begin_(Clock::now()),
        acceptor_(io),
        resolver_(io),
        report_timer_(io),
        accept_timer_(io),
        peers_(rendezvous.addresses.size()) {
    mine_.from = rendezvous.rank;
    mine_.addresses = rendezvous.addresses;
    mine_.properties = rendezvous.properties;
    mine_.incarnation = RandomKey(static_cast<std::uint64_t>(begin_.time_since_epoch().count()))
                            .fold_in(static_cast<std::uint64_t>(::getpid()))
                            .fold_in(reinterpret_cast<std::uintptr_t>(this))
                            .value();
  }

  /// Returns the connections by rank; those of this rank itself are closed ones.
  std::vector<TcpLinks> run() {
    try {
      listen();
      accept();
      for (int peer = 0; peer < rank(); ++peer) dial_both(peer);
      report_later();
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
    std::vector<TcpLinks> links;
    for (Peer& peer : peers_) {
      links.push_back({asio::ip::tcp::socket(io_), asio::ip::tcp::socket(io_)});
      if (peer.link[0] != nullptr) links.back().data = std::move(peer.link[0]->socket);
      if (peer.link[1] != nullptr) links.back().control = std::move(peer.link[1]->socket);
    }
    return links;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Socket = asio::ip::tcp::socket;
  using ErrorCode = asio::error_code;
  using Channel = Hello::Channel;

  static constexpr auto handshake_timeout = std::chrono::seconds(10);
  static constexpr auto report_interval = std::chrono::seconds(5);
  static constexpr std::size_t most_guests = 256;

  struct Connection {
    explicit Connection(asio::io_context& io) : socket(io), timer(io) {}

    Socket socket;
    asio::steady_timer timer;
    bool incoming = false;
    bool over = false;      // failed, replaced, or not wanted any more
    bool answered = false;  // incoming: the peer's hello has come, ours is on its way
    int peer = -1;
    std::size_t channel = 0;
    std::vector<asio::ip::tcp::endpoint> endpoints;  // still to be tried, the next one last
    std::string problem;
    std::string out;
    std::size_t sent = 0;
    std::string in;
    std::uint64_t incarnation = 0;
    bool ready_sent = false;
  };
  using ConnectionPointer = std::shared_ptr<Connection>;

  struct Peer {
    std::array<ConnectionPointer, 2> link;  // by channel; null while it does not stand
    std::string problem;
    bool ready = false;
    std::chrono::milliseconds delay{50};
  };

  [[nodiscard]] int rank() const noexcept { return mine_.from; }
  [[nodiscard]] int world() const noexcept { return static_cast<int>(peers_.size()); }
  [[nodiscard]] Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::string name(int rank) const { return peer_name(mine_.addresses, rank); }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  [[nodiscard]] std::string hello_to(int peer, std::size_t channel) const {
    Hello hello = mine_;
    hello.to = peer;
    hello.channel = static_cast<Channel>(channel);
    return hello.encode();
  }

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

  // --- the own port ------------------------------------------------------------------------------------------------

  void listen() {
    const Address own = parse_address(mine_.addresses[static_cast<std::size_t>(rank())]);
    if (adopt_listener(listen_socket_, own.port)) return;
    if (const char* text = std::getenv("LOCKSTEP_LISTEN_FD"))
      if (adopt_listener(std::atoi(text), own.port)) return;

    ErrorCode error;
    const auto numeric = asio::ip::make_address(own.host, error);
    if (own.host == "localhost") {
      open_listener({asio::ip::address_v4::loopback(), own.port}, error);
    } else if (!error && numeric.is_loopback()) {
      open_listener({numeric, own.port}, error);
    } else {
      open_listener({asio::ip::tcp::v6(), own.port}, error);  // IPv4 too
      if (error && error != asio::error::address_in_use) open_listener({asio::ip::tcp::v4(), own.port}, error);
    }
    if (error)
      throw ConfigurationError(name(rank()) + " cannot listen on its port " + std::to_string(own.port) + ": " +
                               error.message() + (error == asio::error::address_in_use
                                                      ? "; another program, or another worker with the same task, has it"
                                                      : ""));
  }

  bool adopt_listener(int descriptor, std::uint16_t port) {
    if (descriptor < 0) return false;
    int listening = 0;
    socklen_t size = sizeof listening;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) return false;
    sockaddr_storage name{};
    size = sizeof name;
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) != 0) return false;
    const bool v6 = name.ss_family == AF_INET6;
    if (!v6 && name.ss_family != AF_INET) return false;
    const auto actual = v6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(name).sin6_port)
                           : ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
    if (actual != port) return false;
    ErrorCode error;
    acceptor_.assign(v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), descriptor, error);
    if (error) return false;
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return true;
  }

  void open_listener(const asio::ip::tcp::endpoint& endpoint, ErrorCode& error) {
    ErrorCode ignored;
    acceptor_.close(ignored);
    acceptor_.open(endpoint.protocol(), error);
    if (error) return;
    ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    acceptor_.set_option(asio::socket_base::reuse_address(true), ignored);
    if (endpoint.protocol() == asio::ip::tcp::v6() && endpoint.address().is_unspecified())
      acceptor_.set_option(asio::ip::v6_only(false), ignored);
    acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(std::max(128, 4 * world()), error);
  }

  // --- connections to this worker ----------------------------------------------------------------------------------

  void accept() {
    auto guest = std::make_shared<Connection>(io_);
    guest->incoming = true;
    acceptor_.async_accept(guest->socket, [self = shared_from_this(), guest](ErrorCode error) {
      if (self->stopped_) return;
      if (error) {  // out of descriptors, for example
        self->accept_timer_.expires_after(std::chrono::milliseconds(100));
        self->accept_timer_.async_wait([self](ErrorCode) {
          if (!self->stopped_) self->accept();
        });
        return;
      }
      configure(guest->socket);
      if (self->guests_.size() >= most_guests) self->drop_guest(self->guests_.front());
      self->guests_.push_back(guest);
      self->limit_handshake(guest);
      self->pump(guest);
      self->accept();
    });
  }

  void drop_guest(const ConnectionPointer guest) {  // a copy: the list may hold the last other one
    discard(guest);
    forget(guest);
  }

  void drop_stranger(const ConnectionPointer& guest, std::string_view what) {
    ErrorCode error;
    const auto endpoint = guest->socket.remote_endpoint(error);
    ++strangers_;
    stranger_ = (error ? std::string("somebody") : endpoint.address().to_string()) + ' ' + std::string(what);
    drop_guest(guest);
  }

  // --- connections to lower ranks ----------------------------------------------------------------------------------

  void dial_both(int peer) {
    dial(peer, 0);
    dial(peer, 1);
  }

  void dial(int to, std::size_t channel) {
    auto connection = std::make_shared<Connection>(io_);
    connection->peer = to;
    connection->channel = channel;
    dials_.push_back(connection);
    const Address address = parse_address(mine_.addresses[static_cast<std::size_t>(to)]);
    ErrorCode error;
    const auto numeric = asio::ip::make_address(address.host, error);
    if (!error) {
      connection->endpoints.emplace_back(numeric, address.port);
      return connect_next(connection);
    }
    resolver_.async_resolve(
        address.host, std::to_string(address.port), asio::ip::tcp::resolver::numeric_service,
        [self = shared_from_this(), connection](ErrorCode failed, const asio::ip::tcp::resolver::results_type& found) {
          if (self->stopped_ || connection->over) return;
          for (const auto& entry : found) connection->endpoints.push_back(entry.endpoint());
          std::reverse(connection->endpoints.begin(), connection->endpoints.end());
          connection->problem = "its name does not resolve: " + (failed ? failed.message() : "no address");
          self->connect_next(connection);
        });
  }

  void connect_next(const ConnectionPointer& connection) {
    if (connection->endpoints.empty()) return fail(connection, connection->problem);
    const auto endpoint = connection->endpoints.back();
    connection->endpoints.pop_back();
    ErrorCode ignored;
    connection->socket.close(ignored);
    connection->problem = "does not answer (nothing comes back from " + endpoint.address().to_string() + ")";
    limit_handshake(connection);
    connection->socket.async_connect(endpoint, [self = shared_from_this(), connection](ErrorCode error) {
      if (self->stopped_ || connection->over) return;
      if (!connection->socket.is_open()) error = asio::error::operation_aborted;  // out of time just now
      if (error) {
        if (error != asio::error::operation_aborted) connection->problem = lower_case(error.message());
        return self->connect_next(connection);
      }
      configure(connection->socket);
      connection->out = self->hello_to(connection->peer, connection->channel);
      connection->problem = "accepts connections, but is silent";
      self->pump(connection);
    });
  }

  static std::string lower_case(std::string text) {  // "Connection refused" stands in the middle of a sentence
    if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
    return text;
  }

  // --- the handshake -----------------------------------------------------------------------------------------------

  void limit_handshake(const ConnectionPointer& connection) {
    connection->timer.expires_after(handshake_timeout);
    connection->timer.async_wait([self = shared_from_this(), connection](ErrorCode error) {
      if (error || self->stopped_ || connection->over) return;
      ErrorCode ignored;
      if (connection->incoming)
        self->drop_stranger(connection, "connected, but did not complete the handshake");
      else if (!connection->endpoints.empty())
        connection->socket.close(ignored);  // its handler goes on with the next endpoint
      else
        self->fail(connection, connection->problem);
    });
  }

  void pump_later(const ConnectionPointer& connection, Socket::wait_type what) {
    connection->socket.async_wait(what, [self = shared_from_this(), connection](ErrorCode) {
      if (!self->stopped_ && !connection->over) self->pump(connection);
    });
  }

  // Sends what is to be sent, then reads the peer's hello, as far as both go without waiting.
  void pump(const ConnectionPointer& connection) {
    Connection& c = *connection;
    ErrorCode error;
    while (c.sent < c.out.size()) {
      c.sent += c.socket.write_some(asio::buffer(c.out.data() + c.sent, c.out.size() - c.sent), error);
      if (error == asio::error::would_block) return pump_later(connection, Socket::wait_write);
      if (error) return fail(connection, "closes the connection at once");
    }
    if (c.answered) return c.problem.empty() ? adopt(connection) : refuse(connection);
    std::array<char, 4096> chunk;
    for (;;) {
      const std::size_t wanted = Hello::wanted(c.in);
      if (c.in.size() == wanted) return greet(connection);
      const std::size_t n = c.socket.read_some(asio::buffer(chunk.data(), std::min(chunk.size(), wanted - c.in.size())), error);
      if (error == asio::error::would_block) return pump_later(connection, Socket::wait_read);
      if (error) return fail(connection, "closes the connection during the handshake");
      c.in.append(chunk.data(), n);
      if (!Hello::may_begin(c.in)) return stranger(connection);
    }
  }

  void stranger(const ConnectionPointer& connection) {
    if (connection->incoming)
      drop_stranger(connection, "does not speak this protocol");
    else
      fail(connection, "is another program, which does not speak this protocol");
  }

  // The peer's hello is complete.
  void greet(const ConnectionPointer& connection) {
    Connection& c = *connection;
    Hello theirs;
    if (!Hello::decode(c.in, theirs)) return stranger(connection);
    c.in.clear();
    c.incarnation = theirs.incarnation;
    if (theirs.version == mine_.version && theirs.incarnation == mine_.incarnation)
      // A socket that connects to a free port of its own host may be given that very port, and so meet itself.
      return fail(connection, "connection refused");
    std::string problem = difference(mine_, theirs);
    if (!c.incoming) {
      if (problem.empty() && theirs.from != c.peer) problem = "answers as rank " + std::to_string(theirs.from);
      if (!problem.empty()) {
        refusal_ = name(c.peer) + " " + problem + "; all workers need the same program and the same cluster in TF_CONFIG";
        return;
      }
      return adopt(connection);
    }
    if (problem.empty() && theirs.from < rank()) problem = "connects to a higher rank, which it must not";
    c.problem = problem;
    c.channel = static_cast<std::size_t>(theirs.channel);
    // Whoever has the place that this worker waits for is meant to be here; anybody else lost his way.
    const auto from = static_cast<std::size_t>(theirs.from);
    const bool has_place = theirs.version == mine_.version && from < peers_.size() && theirs.from > rank() &&
                           theirs.addresses[from] == mine_.addresses[from] && theirs.to == rank();
    c.peer = problem.empty() || has_place ? theirs.from : -1;
    c.out = hello_to(theirs.from, c.channel);
    c.sent = 0;
    c.answered = true;
    pump(connection);
  }

  // An incoming connection of another worker, which has our hello and so can say why.
  void refuse(const ConnectionPointer& connection) {
    if (connection->peer >= 0)
      refusal_ = name(connection->peer) + " " + connection->problem +
                 "; all workers need the same program and the same cluster in TF_CONFIG";
    else
      drop_stranger(connection, connection->problem);
  }

  // The connection stands. It replaces an older one: whoever connects again has lost or left that.
  void adopt(const ConnectionPointer& connection) {
    Connection& c = *connection;
    forget(connection);
    c.timer.cancel();
    Peer& p = peer(c.peer);
    if (p.link[c.channel] != nullptr) discard(p.link[c.channel]);
    p.link[c.channel] = connection;
    ConnectionPointer& other = p.link[1 - c.channel];
    if (other != nullptr && other->incarnation != c.incarnation) {
      discard(other);
      other = nullptr;
      if (!c.incoming) dial(c.peer, 1 - c.channel);
    }
    p.problem.clear();
    p.delay = std::chrono::milliseconds(50);
    if (c.channel == static_cast<std::size_t>(Channel::control)) {
      p.ready = false;
      watch(connection);
    }
    consider_done();
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
    peer(connection->peer).problem = problem;
    dial_later(connection->peer, connection->channel);
  }

  void dial_later(int to, std::size_t channel) {
    Peer& p = peer(to);
    auto timer = std::make_shared<asio::steady_timer>(io_, p.delay);
    p.delay = std::min(2 * p.delay, std::chrono::milliseconds(1000));
    timer->async_wait([self = shared_from_this(), timer, to, channel](ErrorCode) {
      if (!self->stopped_) self->dial(to, channel);
    });
  }

  // --- agreeing that all connections stand -------------------------------------------------------------------------

  void watch(const ConnectionPointer& control) {
    control->socket.async_wait(Socket::wait_read, [self = shared_from_this(), control](ErrorCode) {
      if (!self->stopped_ && !control->over) self->look(control);
    });
  }

  // A frame that belongs to the time after start-up stays where it is, for Tcp.
  void look(const ConnectionPointer& control) {
    FrameBytes bytes{};
    ErrorCode error;
    const std::size_t n = control->socket.receive(asio::buffer(bytes), asio::socket_base::message_peek, error);
    if (error == asio::error::would_block) return watch(control);
    if (error) return lose(control);
    ControlFrame frame;
    if (n == frame_bytes && !ControlFrame::decode(bytes, frame)) return lose(control);
    if (n < frame_bytes) {
      control->timer.expires_after(std::chrono::milliseconds(10));
      control->timer.async_wait([self = shared_from_this(), control](ErrorCode) {
        if (!self->stopped_ && !control->over) self->look(control);
      });
      return;
    }
    if (frame.type == ControlFrame::Type::abort) return read_abort(control, frame);
    if (frame.type == ControlFrame::Type::ready && rank() == 0) {
      peer(control->peer).ready = true;
    } else if (frame.type == ControlFrame::Type::go && control->peer == 0) {
      go_ = true;
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
    aborted_ = CollectiveFailure{.failed_rank = failed,
                                 .address = mine_.addresses[static_cast<std::size_t>(failed)],
                                 .operation = "start-up",
                                 .seconds = seconds(),
                                 .reason = text.size() > frame_bytes ? text.substr(frame_bytes) : "gave up",
                                 .code = static_cast<ExitCode>(frame.extra)};
  }

  void lose(const ConnectionPointer& control) {
    const int lost = control->peer;
    Peer& p = peer(lost);
    for (ConnectionPointer& link : p.link) {
      if (link != nullptr) discard(link);
      link = nullptr;
    }
    p.ready = false;
    p.problem = "closed the connection again";
    if (lost == 0) go_ = false;
    if (lost < rank()) {
      dial_later(lost, 0);
      dial_later(lost, 1);
    }
  }

  void consider_done() {
    for (int other = 0; other < world(); ++other)
      if (other != rank() && (peer(other).link[0] == nullptr || peer(other).link[1] == nullptr)) return;
    if (rank() != 0) {
      Connection& first = *peer(0).link[1];
      if (!first.ready_sent) send(0, {.type = ControlFrame::Type::ready});
      first.ready_sent = true;
      done_ = go_;
      return;
    }
    for (int other = 1; other < world(); ++other)
      if (!peer(other).ready) return;
    for (int other = 1; other < world(); ++other) send(other, {.type = ControlFrame::Type::go});
    done_ = true;
  }

  // 16 bytes always fit into the buffer of a new connection. An error shows when the connection is read.
  void send(int to, const ControlFrame& frame, std::string_view text = {}) {
    const FrameBytes bytes = frame.encode();
    const std::array<asio::const_buffer, 2> parts{asio::buffer(bytes), asio::buffer(text)};
    ErrorCode ignored;
    peer(to).link[1]->socket.write_some(parts, ignored);
  }

  void tell_others(const Error& error) {
    if (aborted_) return;
    const std::string_view text = std::string_view(error.what()).substr(0, ControlFrame::longest);
    const auto* lost = dynamic_cast<const CollectiveError*>(&error);
    for (int other = 0; other < world(); ++other)
      if (other != rank() && peer(other).link[1] != nullptr)
        send(other,
             {.type = ControlFrame::Type::abort,
              .value = lost != nullptr ? lost->failed_rank() : rank(),
              .extra = static_cast<std::int32_t>(error.exit_code()),
              .length = static_cast<std::uint32_t>(text.size())},
             text);
  }

  // --- reports -----------------------------------------------------------------------------------------------------

  // Why `other` is not there yet; empty when it is.
  [[nodiscard]] std::string missing(int other) {
    const Peer& p = peer(other);
    if (other == rank()) return {};
    if (p.link[0] == nullptr || p.link[1] == nullptr)
      return !p.problem.empty() ? p.problem : other < rank() ? "being connected to" : "has not connected yet";
    if (rank() == 0 && !p.ready) return "is connected to this worker, but not yet to all others";
    if (other == 0) return "has not heard from all others yet";
    return {};
  }

  void report_later() {
    report_timer_.expires_after(report_interval);
    report_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
      if (error || self->stopped_) return;
      std::string text;
      for (int other = 0; other < self->world(); ++other)
        if (const std::string why = self->missing(other); !why.empty())
          text += (text.empty() ? "" : "; ") + self->name(other) + ": " + why;
      if (self->strangers_ > 0)
        text += "; turned away " + std::to_string(self->strangers_) + " connections, the last because " + self->stranger_;
      log_line("rank " + std::to_string(self->rank()) + " waits since " +
               std::to_string(static_cast<int>(self->seconds())) + " s for " + text);
      self->report_later();
    });
  }

  [[nodiscard]] CollectiveFailure timed_out() {
    CollectiveFailure failure{.operation = "start-up", .seconds = seconds()};
    std::string others;
    for (int other = 0; other < world(); ++other) {
      const std::string why = missing(other);
      if (why.empty()) continue;
      if (failure.failed_rank < 0) {
        failure.failed_rank = other;
        failure.address = mine_.addresses[static_cast<std::size_t>(other)];
        failure.reason = why;
      } else {
        others += "; " + name(other) + ": " + why;
      }
    }
    failure.reason += others + "; the workers must all be there within " +
                      std::to_string(options_.startup_timeout.count()) + " ms (CommunicationOptions::startup_timeout)";
    return failure;
  }

  void tear_down() {
    stopped_ = true;
    ErrorCode ignored;
    acceptor_.close(ignored);
    resolver_.cancel();
    report_timer_.cancel();
    accept_timer_.cancel();
    for (const ConnectionPointer& guest : guests_) discard(guest);
    for (const ConnectionPointer& dial : dials_) discard(dial);
    for (Peer& p : peers_)
      for (const ConnectionPointer& link : p.link)
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
  const Clock::time_point begin_;
  Hello mine_;
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::resolver resolver_;
  asio::steady_timer report_timer_;
  asio::steady_timer accept_timer_;
  std::vector<Peer> peers_;
  std::vector<ConnectionPointer> guests_;  // incoming ones, before the end of the handshake
  std::vector<ConnectionPointer> dials_;   // outgoing ones
  std::size_t strangers_ = 0;
  std::string stranger_;
  std::optional<std::string> refusal_;
  std::optional<CollectiveFailure> aborted_;
  bool go_ = false;
  bool done_ = false;
  bool stopped_ = false;
};

}  // namespace detail
}  // namespace lockstep::inline LOCKSTEP_ABI
