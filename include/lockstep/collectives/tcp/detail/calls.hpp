// The connections of the start-up, and the port at which they come: see TcpStartup.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
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

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/tcp/detail/control_thread.hpp"
#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/listener.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// One connection, made by this worker or accepted, from its begin to the end of its handshake.
/// Then, or when it fails, it calls its owner; after discard(), it does not.
class TcpConnection : public std::enable_shared_from_this<TcpConnection> {
 private:
  // What happens next.
  auto then(void (TcpConnection::*next)(asio::error_code)) {
    return [self = shared_from_this(), next](asio::error_code error) {
      if (!self->over) ((*self).*next)(error);
    };
  }

 public:
  using Pointer = std::shared_ptr<TcpConnection>;
  using ErrorCode = asio::error_code;
  using Clock = std::chrono::steady_clock;
  using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, TcpExecutor>;

  struct Owner {
    const WorkerNames& names;
    std::shared_ptr<const TlsContext> tls;          ///< null: connections are plain
    std::function<void(const Pointer&)> concluded;  ///< the handshake has an outcome
    std::function<void(const Pointer&, const std::string& problem)> failed;
  };

  TcpConnection(asio::io_context& io, const Owner& owner)
      : socket(io), timer(io), resolver_(io), owner_(owner) {}

  /// The socket has been accepted.
  void receive(Handshake callee) {
    incoming = true;
    configure(socket);
    handshake.emplace(std::move(callee));
    limit_handshake();
    socket.tls = TlsSession::answer(owner_.tls, socket.native_handle());
    shake_hands({});
  }

  /// Connects after a while, and begins the handshake that `greet` makes.
  void call(Address address, std::chrono::milliseconds delay, std::function<Handshake()> greet) {
    address_ = std::move(address);
    greet_ = std::move(greet);
    timer.expires_after(delay);
    timer.async_wait(then(&TcpConnection::resolve));
  }

  void discard() {
    over = true;
    timer.cancel();
    ErrorCode ignored;
    socket.close(ignored);
    resolver_.cancel();
  }

  /// The host on the other side.
  [[nodiscard]] std::string host() const {
    ErrorCode error;
    const auto endpoint = socket.remote_endpoint(error);
    return error ? "an unknown host" : endpoint.address().to_string();
  }

  // For the owner:
  TcpSocket socket;
  Timer timer;
  bool incoming = false;
  bool unresolved = false;  // its name has no address
  bool over = false;        // failed, replaced, or no longer wanted
  int peer = -1;
  std::size_t link = 0;
  std::optional<Handshake> handshake;
  std::uint64_t incarnation = 0;
  bool verdict = false;   // the callee has refused this worker, and ends for that reason
  bool contends = false;  // for a place that another process has
  bool prevails = false;  // has contended, and that other one is gone
  Clock::time_point contends_since;

 private:
  using Resolver = asio::ip::basic_resolver<asio::ip::tcp, TcpExecutor>;

  static constexpr auto handshake_timeout = std::chrono::seconds(10);
  static constexpr auto verdict_timeout = std::chrono::seconds(1);

  void fail(const std::string& problem) { owner_.failed(shared_from_this(), problem); }

  // --- calling -----------------------------------------------------------------------------------

  void resolve(ErrorCode) {
    ErrorCode error;
    const auto numeric = asio::ip::make_address(address_.host, error);
    if (!error) {
      endpoints_.emplace_back(numeric, address_.port);
      return connect_next();
    }
    resolver_.async_resolve(
        address_.host, concat({address_.port}), Resolver::numeric_service,
        [self = shared_from_this()](ErrorCode failed, const Resolver::results_type& found) {
          if (self->over) return;
          for (const auto& entry : found) self->endpoints_.push_back(entry.endpoint());
          std::reverse(self->endpoints_.begin(), self->endpoints_.end());
          self->unresolved = self->endpoints_.empty();
          self->problem_ = name_does_not_resolve(failed ? failed.message() : "no address");
          self->connect_next();
        });
  }

  void connect_next() {
    if (endpoints_.empty()) return fail(problem_);
    const auto endpoint = endpoints_.back();
    endpoints_.pop_back();
    ErrorCode ignored;
    socket.close(ignored);
    problem_ = nothing_comes_from(endpoint.address().to_string());
    limit_handshake();
    socket.async_connect(endpoint, then(&TcpConnection::connected));
  }

  void connected(ErrorCode error) {
    // It may have run out of time just now.
    if (!error && !socket.is_open()) error = asio::error::operation_aborted;
    if (error) {
      if (error != asio::error::operation_aborted)
        problem_ = (socket.is_open() ? "" : cannot_be_called) + lower_case(error.message());
      return connect_next();
    }
    configure(socket);
    handshake.emplace(greet_());
    problem_ = accepts_in_silence;
    if (owner_.tls != nullptr) {
      // A socket that calls a free port of its host may be given that very port.
      if (socket.local_endpoint(error) == socket.remote_endpoint(error))
        return fail(lower_case(asio::error_code(asio::error::connection_refused).message()));
      socket.tls = TlsSession::call(owner_.tls, socket.native_handle(), owner_.names.number(peer));
    }
    shake_hands({});
  }

  // "Connection refused" stands in the middle of a sentence.
  static std::string lower_case(std::string text) {
    if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z')
      text[0] = static_cast<char>(text[0] - 'A' + 'a');
    return text;
  }

  // --- the handshake -----------------------------------------------------------------------------

  void limit_handshake() {
    timer.expires_after(handshake_timeout);
    timer.async_wait(then(&TcpConnection::out_of_time));
  }

  void out_of_time(ErrorCode error) {
    if (error) return;  // the timer was set anew, or is not needed any more
    if (is_refused())
      owner_.concluded(shared_from_this());
    else if (incoming)
      fail(did_not_shake_hands);
    else if (!endpoints_.empty())
      socket.close(error);  // its handler goes on with the next endpoint
    else
      fail(problem_);
  }

  void shake_hands(ErrorCode) {
    const SecureStream stream{socket.native_handle(), socket.tls.get()};
    switch (stream.open(*handshake)) {
      case SecureStream::Opening::goes_on:
        return socket.async_wait((stream.events(!handshake->out().empty()) & POLLOUT) != 0
                                     ? TcpSocket::wait_write
                                     : TcpSocket::wait_read,
                                 then(&TcpConnection::shake_hands));
      case SecureStream::Opening::ended:
        return fail(
            socket.problem(socket.tls != nullptr && socket.tls->state() == TlsSession::State::failed
                               ? closes_in_tls_handshake
                           : handshake->out().empty() ? closes_in_handshake
                                                      : closes_at_once));
      case SecureStream::Opening::over:
        break;
    }
    if (!is_refused()) return owner_.concluded(shared_from_this());
    timer.expires_after(verdict_timeout);
    timer.async_wait(then(&TcpConnection::out_of_time));
    hear_verdict({});
  }

  [[nodiscard]] bool is_refused() const {
    return !incoming && handshake && handshake->outcome() == Handshake::Outcome::refused;
  }

  // A callee that ends because of this caller says so before it closes the connection.
  void hear_verdict(ErrorCode error) {
    std::array<char, 1024> chunk;
    while (!error && !verdict && !after_refusal_.is_broken()) {
      const std::size_t n = socket.read_some(asio::buffer(chunk), error);
      if (error == asio::error::would_block)
        return socket.async_wait(TcpSocket::wait_read, then(&TcpConnection::hear_verdict));
      after_refusal_.append({chunk.data(), n});
      const auto message = after_refusal_.front();
      verdict = message && message->frame.type == ControlFrame::Type::abort;
      if (message && !verdict) break;
    }
    owner_.concluded(shared_from_this());
  }

  Resolver resolver_;
  ControlInbox after_refusal_;
  const Owner& owner_;
  Address address_;
  std::function<Handshake()> greet_;
  std::vector<asio::ip::tcp::endpoint> endpoints_;  // still to be tried, the next one last
  std::string problem_;
};

/// The connections that this worker makes, until their handshakes are over.
class OutgoingCalls {
 public:
  using Call = TcpConnection::Pointer;
  /// Makes the handshake for a link to a rank.
  using Greet = std::function<Handshake(int to, std::size_t link)>;

  OutgoingCalls(asio::io_context& io, const TcpConnection::Owner& owner, Greet greet)
      : io_(io),
        owner_(owner),
        greet_(std::move(greet)),
        delays_(static_cast<std::size_t>(owner.names.size()), shortest) {}

  void start(int to, std::size_t link, std::chrono::milliseconds delay = {}) {
    auto call = std::make_shared<TcpConnection>(io_, owner_);
    call->peer = to;
    call->link = link;
    calls_.push_back(call);
    call->call(parse_address(owner_.names.address(to)), delay,
               [this, to, link] { return greet_(to, link); });
  }

  /// After a failure: each time a little later, until one has succeeded.
  void start_again(int to, std::size_t link) {
    std::chrono::milliseconds& delay = delays_[static_cast<std::size_t>(to)];
    start(to, link, delay);
    delay = std::min(2 * delay, longest);
  }
  void succeed(int to) noexcept { delays_[static_cast<std::size_t>(to)] = shortest; }

  [[nodiscard]] bool is_calling(int to, std::size_t link) const noexcept {
    return std::any_of(calls_.begin(), calls_.end(),
                       [&](const Call& c) { return c->peer == to && c->link == link; });
  }

  /// Gives up all calls to a rank.
  void stop(int to) {
    std::erase_if(calls_, [to](const Call& call) {
      if (call->peer != to) return false;
      call->discard();
      return true;
    });
  }

  /// The call is over.
  void forget(const Call& call) { std::erase(calls_, call); }

  void close() {
    for (const Call& call : calls_) call->discard();
  }

 private:
  static constexpr std::chrono::milliseconds shortest{50};
  static constexpr std::chrono::milliseconds longest{1000};

  asio::io_context& io_;
  const TcpConnection::Owner& owner_;
  const Greet greet_;
  std::vector<std::chrono::milliseconds> delays_;  // by rank
  std::vector<Call> calls_;
};

/// Listens on the port of `address`: with `descriptor` or the one that LOCKSTEP_LISTEN_FD names, if
/// it fits; else on `bind_address`; without one, on the loopback interface if the address belongs
/// to it, else on all interfaces. Returns what is wrong when another socket has the port, and may
/// give it up. Throws ConfigurationError when anything else is wrong.
[[nodiscard]] inline std::string listen_on_own_port(TcpAcceptor& acceptor,
                                                    const std::string& address, int descriptor,
                                                    const std::string& bind_address, int backlog) {
  const Address own = parse_address(address);
  if (!bind_address.empty()) (void)bind_name(bind_address, own.port);
  Descriptor socket;
  if (listens_on(descriptor, own.port))
    socket = Descriptor::checked(descriptor, "take over a socket");
  else
    socket = inherited_listener(own.port);
  if (!socket.is_open())
    socket = bind_address.empty() ? listen_for(own.host, "", own.port, backlog)
                                  : listen_at(bind_address, own.port, backlog);
  if (socket.is_open()) {
    const bool is_v6 = own_name(socket.get()).ss_family == AF_INET6;
    acceptor.assign(is_v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.get());
    (void)socket.release();
    return {};
  }
  const int error = errno;
  std::string problem = OwnPort{own.port, address}.problem(error);
  if (error == EADDRINUSE) return problem;
  if (!bind_address.empty())
    problem += concat({"; CommunicationOptions::bind_address is ", bind_address,
                       ", which must be an address of one of this machine's interfaces"});
  throw ConfigurationError(problem);
}

/// This worker's port, and the connections that have come to it and have no place yet: the
/// **guests**. There is room for a number of them; then the oldest goes, so that no guest can keep
/// others out.
class IncomingCalls {
 public:
  using Guest = TcpConnection::Pointer;

  /// `greet` makes the handshake with a guest.
  IncomingCalls(asio::io_context& io, std::size_t most_guests, const TcpConnection::Owner& owner,
                std::function<Handshake()> greet, std::shared_ptr<KeptPort> kept)
      : io_(io),
        most_guests_(most_guests),
        owner_(owner),
        greet_(std::move(greet)),
        kept_(std::move(kept)),
        acceptor_(io),
        open_timer_(io) {}

  /// See listen_on_own_port(). (A worker that calls amid strangers waits behind those in the
  /// backlog: it is short.) While another socket has the port, this tries again and again: even
  /// an outgoing connection of another program may have it for a moment.
  void open(const std::string& address, int descriptor, const std::string& bind_address,
            int backlog) {
    if (descriptor < 0 && kept_) descriptor = kept_->copy();
    const std::string before = std::exchange(
        cannot_listen_, listen_on_own_port(acceptor_, address, descriptor, bind_address, backlog));
    if (cannot_listen_.empty()) {
      if (kept_ && !kept_->is_set()) kept_->keep(acceptor_.native_handle());
      if (!before.empty()) log_line(concat({"this worker listens on its port now: ", address}));
      return accept();
    }
    if (before.empty()) log_line(cannot_listen_ + tries_again);
    open_timer_.expires_after(std::chrono::milliseconds(100));
    open_timer_.async_wait([=, this](asio::error_code) {
      if (!closed_) open(address, -1, bind_address, backlog);
    });
  }

  /// Why this worker does not listen yet; empty when it does.
  [[nodiscard]] const std::string& cannot_listen() const noexcept { return cannot_listen_; }

  /// The listening socket, non-blocking; none if this worker does not listen.
  [[nodiscard]] Descriptor release() {
    closed_ = true;
    asio::error_code error;
    const int listener = acceptor_.is_open() ? acceptor_.release(error) : -1;
    return Descriptor(error ? -1 : listener);
  }

  void close() {
    closed_ = true;
    open_timer_.cancel();
    asio::error_code ignored;
    acceptor_.close(ignored);
    for (const Guest& guest : guests_) guest->discard();
  }

  [[nodiscard]] const std::vector<Guest>& guests() const noexcept { return guests_; }

  /// The connection is no longer a guest.
  void forget(const Guest& guest) { std::erase(guests_, guest); }
  // Taken by value: the list may hold the only other reference.
  void drop(Guest guest) {  // NOLINT(performance-unnecessary-value-param)
    guest->discard();
    forget(guest);
  }
  void turn_away(const Guest& stranger, std::string_view what) {
    ++strangers_;
    last_stranger_ = concat({stranger->host(), " ", what});
    drop(stranger);
  }

  /// For a report: "; turned away 3 connections; the last one: ...", or nothing.
  [[nodiscard]] std::string strangers() const {
    if (strangers_ == 0) return {};
    return concat({"; turned away ", strangers_, " connections; the last one: ", last_stranger_});
  }
  /// For a report: "; this worker cannot accept connections: ...", or nothing.
  [[nodiscard]] std::string problem() const {
    if (!cannot_listen_.empty()) return concat({"; this worker ", cannot_listen_});
    if (!problem_) return {};
    return concat({"; this worker cannot accept connections: ", problem_.message()});
  }

 private:
  void accept() {
    auto guest = std::make_shared<TcpConnection>(io_, owner_);
    acceptor_.async_accept(guest->socket, [this, guest](asio::error_code error) {
      if (closed_) return;
      problem_ = error;
      if (!error) {
        admit(guest);
        return accept();
      }
      // Out of descriptors, for example.
      guest->timer.expires_after(std::chrono::milliseconds(100));
      guest->timer.async_wait([this, guest](asio::error_code) {
        if (!closed_) accept();
      });
    });
  }

  void admit(const Guest& guest) {
    if (guests_.size() >= most_guests_) {
      const auto oldest =
          std::find_if(guests_.begin(), guests_.end(), [](const Guest& g) { return !g->contends; });
      if (oldest != guests_.end()) drop(*oldest);
    }
    guests_.push_back(guest);
    guest->receive(greet_());
  }

  asio::io_context& io_;
  const std::size_t most_guests_;
  const TcpConnection::Owner& owner_;
  const std::function<Handshake()> greet_;
  const std::shared_ptr<KeptPort> kept_;
  TcpAcceptor acceptor_;
  TcpConnection::Timer open_timer_;
  std::string cannot_listen_;
  std::vector<Guest> guests_;
  std::size_t strangers_ = 0;
  std::string last_stranger_;
  asio::error_code problem_;  // of the last attempt to accept a connection
  bool closed_ = false;
};

}}}  // namespace lockstep::detail
