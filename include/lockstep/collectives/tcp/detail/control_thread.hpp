// The control connections of Tcp, and the thread that serves them.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/collectives/address.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/protocol/authentication.hpp"
#include "lockstep/collectives/protocol/control_channel.hpp"
#include "lockstep/collectives/protocol/failure_consensus.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"
#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/collectives/tls/tls_session.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/system.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"
#include "lockstep/net/descriptor.hpp"
#include "lockstep/net/socket.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Calls a port, and closes its direction at once. The process that is looked for answers with
/// its incarnation (see ListeningPort). If no process has the port, or a different one answers,
/// it has ended. One that closes the connection in silence may be a successor at its start. A port
/// that is held open for it, by a launcher for example, tells nothing. Never blocks.
class PortProbe {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds patience{300};

  PortProbe(const SocketName& name, std::uint64_t incarnation, Clock::time_point now)
      : incarnation_(incarnation), is_here_(is_of_this_machine(name)), end_(now + patience) {
    int error = 0;
    socket_ = begin_call(name, error);
    if (!socket_.is_open())
      conclude(PeerEvidence::Process::unknown);
    else if (error != 0 && error != EINPROGRESS)
      conclude_by(error);
  }

  [[nodiscard]] pollfd watch() const noexcept {
    return {socket_.get(), static_cast<short>(is_connected_ ? POLLIN : POLLOUT), 0};
  }
  [[nodiscard]] Clock::time_point due() const noexcept { return end_; }
  /// Set when it is over.
  [[nodiscard]] std::optional<PeerEvidence::Process> outcome() const noexcept { return outcome_; }

  /// Does what it can without blocking.
  void advance(Clock::time_point now) {
    if (outcome_) return;
    pollfd watched = watch();
    if (::poll(&watched, 1, 0) > 0) is_connected_ ? read() : connected();
    if (!outcome_ && now >= end_) conclude(PeerEvidence::Process::unknown);
  }

 private:
  void connected() {
    if (const int error = socket_error(socket_.get()); error != 0) return conclude_by(error);
    if (has_met_itself(socket_.get())) return conclude(PeerEvidence::Process::ended);
    is_connected_ = true;
    ::shutdown(socket_.get(), SHUT_WR);
  }

  void read() {
    const ssize_t n = ::recv(socket_.get(), &heard_[got_], heard_.size() - got_, 0);
    if (n < 0 && errno == EAGAIN) return;
    got_ += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    if (n > 0 && got_ < heard_.size()) return;
    if (n == 0) return conclude(PeerEvidence::Process::closes);
    // Reset: the port was there until a moment ago.
    const bool is_the_same = n > 0 && get_number<8>(heard_.data()) == incarnation_;
    conclude(is_the_same ? PeerEvidence::Process::lives : PeerEvidence::Process::ended);
  }

  void conclude_by(int error) {
    conclude(error != ECONNREFUSED ? PeerEvidence::Process::unknown
             : is_here_            ? PeerEvidence::Process::ended
                                   : PeerEvidence::Process::refused);
  }
  void conclude(PeerEvidence::Process outcome) { outcome_ = outcome; }

  std::uint64_t incarnation_ = 0;
  std::size_t got_ = 0;
  std::array<std::byte, 8> heard_{};
  bool is_here_ = false;
  Descriptor socket_;
  Clock::time_point end_{};
  bool is_connected_ = false;
  std::optional<PeerEvidence::Process> outcome_;
};

/// One PortProbe for each lost rank.
class PortProbes {
 public:
  using Clock = PortProbe::Clock;

  explicit PortProbes(std::size_t ranks) : ports_(ranks) {}

  /// Where a rank listens: at its address in the list if that is a number, else at the address of
  /// its connection. Its process says that it is this `incarnation`.
  void remember(int rank, const std::string& address, int connection, std::uint64_t incarnation) {
    const Address listed = parse_address(address);
    SocketName name = ip_name(listed.host, listed.port).value_or(peer_name(connection));
    set_port(name, listed.port);
    if (name.ss_family != AF_UNSPEC)
      ports_[static_cast<std::size_t>(rank)].emplace(name, incarnation);
  }

  /// Returns false when it is not known where the rank listens.
  bool call(int rank, Clock::time_point now) {
    const auto& port = ports_[static_cast<std::size_t>(rank)];
    if (!port) return false;
    const auto& [place, incarnation] = *port;
    probes_.emplace_back(rank, PortProbe(place, incarnation, now));
    return true;
  }

  /// Adds the descriptors to watch, and returns the time at which to call advance() in any case.
  Clock::time_point watch(std::vector<pollfd>& watched) const {
    auto due = Clock::time_point::max();
    for (const auto& [rank, probe] : probes_) {
      watched.push_back(probe.watch());
      due = std::min(due, probe.due());
    }
    return due;
  }

  /// found(rank, outcome) for each probe that is over.
  template <class F>
  void advance(Clock::time_point now, F found) {
    std::erase_if(probes_, [&](auto& entry) {
      auto& [rank, probe] = entry;
      probe.advance(now);
      const auto outcome = probe.outcome();
      if (outcome) found(rank, *outcome);
      return outcome.has_value();
    });
  }

  void clear() { probes_.clear(); }

 private:
  // By rank.
  std::vector<std::optional<std::pair<SocketName, std::uint64_t>>> ports_;
  std::vector<std::pair<int, PortProbe>> probes_;
};

/// Closing first, with something unread, might cut off what the other side has not read yet: the
/// word of rank 0 that the start-up is over.
class RetiredSockets {
 public:
  void add(TcpSocket socket) { sockets_.push_back(std::move(socket)); }
  void clear() { sockets_.clear(); }
  [[nodiscard]] std::size_t size() const noexcept { return sockets_.size(); }

  void watch(std::vector<pollfd>& watched) {
    for (TcpSocket& socket : sockets_) watched.push_back({socket.native_handle(), POLLIN, 0});
  }
  /// With what watch() has added.
  void serve(std::span<const pollfd> watched) {
    std::size_t i = 0;
    sockets_.remove_if(
        [&](TcpSocket& socket) { return watched[i++].revents != 0 && ends(socket); });
  }

 private:
  // What comes before the end does not matter.
  static bool ends(TcpSocket& socket) {
    std::array<char, 1024> chunk;
    asio::error_code error;
    while (!error) (void)socket.read_some(asio::buffer(chunk), error);
    return error != asio::error::would_block;
  }

  std::list<TcpSocket> sockets_;  // which need not be moved
};

/// Goes on listening, so that no other program can take the port while this worker or its
/// replacement needs it. A **guest** that asks whether this rank's process lives
/// (Hello::Channel::probe) gets its answer, after a proof if there is a secret; a worker that wants
/// to join hears that the cluster is at work; any other guest is turned away without a word. With
/// TLS, all of this comes after its handshake. The number of guests, their time and their rate are
/// limited.
///
/// A rank that has lost its connections to this one calls the port, and closes its direction at
/// once. It is sent Hello::incarnation, in 8 bytes, without delay, so that it knows this process
/// from a successor. (A port that is held open for a dead process accepts connections, but closes
/// none.) The control thread makes all calls: none blocks, throws or takes long, because the other
/// ranks get no answer until it returns.
class ListeningPort {
 public:
  using Clock = std::chrono::steady_clock;

  /// Takes over a listening socket, which does not block.
  ListeningPort(Descriptor listener, Hello mine, ClusterSecret secret,
                std::shared_ptr<const TlsContext> tls)
      : listener_(std::move(listener)),
        mine_(std::move(mine)),
        secret_(std::move(secret)),
        tls_(std::move(tls)) {}
  ListeningPort(const ListeningPort&) = delete;
  ListeningPort& operator=(const ListeningPort&) = delete;

  /// Adds the descriptors to watch, and returns the time at which to call serve() in any case.
  Clock::time_point watch(std::vector<pollfd>& watched) const {
    const bool is_open = Clock::now() >= closed_until_;
    watched.push_back({is_open ? listener_.get() : -1, POLLIN, 0});
    auto due = is_open ? Clock::time_point::max() : closed_until_;
    for (const Guest& guest : guests_) {
      watched.push_back({guest.socket.socket.get(),
                         guest.socket.stream().events(!guest.handshake.out().empty()), 0});
      due = std::min(due, guest.leaves);
    }
    return due;
  }

  /// Called after each wait with the descriptors that it has added, with their events.
  void serve(std::span<const pollfd> watched) {
    const auto now = Clock::now();
    std::size_t i = 0;
    std::erase_if(guests_, [&](Guest& guest) {
      const bool has_news = watched[++i].revents != 0;
      return now >= guest.leaves || (has_news && !(answer(guest) && talk(guest)));
    });
    if (watched[0].revents != 0) accept(now);
  }

 private:
  struct Guest {
    SecureSocket socket;
    Clock::time_point leaves;
    Handshake handshake;
  };

  static constexpr std::size_t most_guests = 16;
  static constexpr int most_at_once = 8, most_with_tls_at_once = 2;  // a handshake takes 1 ms
  static constexpr auto stay = std::chrono::seconds(2);
  static constexpr auto pause = std::chrono::milliseconds(20);  // 400 guests a second are enough

  void accept(Clock::time_point now) noexcept {
    for (int i = 0; i < (tls_ == nullptr ? most_at_once : most_with_tls_at_once); ++i) {
      Descriptor socket(accept_socket(listener_.get()));
      if (!socket.is_open() && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (!socket.is_open()) break;  // perhaps no descriptor is left
      try {
        if (guests_.size() == most_guests) {
          (void)answer(guests_.front());
          guests_.erase(guests_.begin());
        }
        auto tls = TlsSession::answer(tls_, socket.get());
        guests_.push_back({{std::move(socket), std::move(tls)},
                           now + stay,
                           Handshake::callee_at_work(mine_, secret_)});
      } catch (...) {  // no memory, or no random bytes
      }
    }
    closed_until_ = now + pause;
  }

  // Returns false for a guest that has closed its direction.
  [[nodiscard]] bool answer(const Guest& guest) const noexcept {
    char byte = 0;
    if (::recv(guest.socket.socket.get(), &byte, 1, MSG_PEEK) != 0) return true;
    std::array<std::byte, 8> incarnation{};
    put_number<8>(incarnation.data(), mine_.incarnation);
    (void)::send(guest.socket.socket.get(), incarnation.data(), incarnation.size(), no_signal);
    return false;
  }

  // Returns false when the guest's time is over.
  static bool talk(Guest& guest) noexcept {
    try {
      return guest.socket.stream().open(guest.handshake) == SecureStream::Opening::goes_on;
    } catch (...) {
      return false;
    }
  }

  Descriptor listener_;
  Hello mine_;
  ClusterSecret secret_;
  std::shared_ptr<const TlsContext> tls_;
  std::vector<Guest> guests_;
  Clock::time_point closed_until_{};
};

/// Frames wait here until flush(), so that they leave in few pieces: with many ranks, one word that
/// comes leads to dozens. What the system does not take stays for the next time.
class ControlOutbox {
 public:
  ControlOutbox(std::deque<TcpLinks>& links, std::size_t ranks)
      : links_(links), unsent_(ranks), resets_(ranks) {}

  void add(int to, const ControlFrame& frame, std::string_view text) {
    std::string& unsent = unsent_[index(to)];
    if (unsent.size() > most) return;  // a peer that reads nothing any more is lost anyway
    if (unsent.empty()) waiting_.push_back(to);
    const FrameBytes bytes = frame.encode();
    unsent.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    unsent += text;
  }

  /// Returns whether something is left.
  bool flush() noexcept {
    std::erase_if(waiting_, [this](int to) { return flush(to); });
    return !waiting_.empty();
  }
  /// Whether something is left for this rank.
  [[nodiscard]] bool is_full(int to) const noexcept { return !unsent_[index(to)].empty(); }

  /// The system reports a reset only once, here to the sender; the next read just finds the end.
  /// errno, or 0.
  [[nodiscard]] int reset_by(int rank) const noexcept { return resets_[index(rank)]; }

 private:
  static constexpr std::size_t most = std::size_t{1} << 20;

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  bool flush(int to) noexcept {
    std::string& unsent = unsent_[index(to)];
    asio::error_code error;
    while (!unsent.empty() && !error)
      unsent.erase(0, links_[index(to)].control.write_some(asio::buffer(unsent), error));
    if (error == asio::error::would_block) return false;
    unsent.clear();
    if (error == asio::error::connection_reset) resets_[index(to)] = error.value();
    return true;
  }

  std::deque<TcpLinks>& links_;
  std::vector<std::string> unsent_;  // by rank
  std::vector<int> waiting_;         // the ranks for which there is something
  std::vector<int> resets_;          // by rank: errno of what could not be sent
};

/// Answers the other ranks, whatever the rank's threads are doing, and notices a lost one. It owns
/// no sockets: those of `links` must stay until stop() has returned. All calls from any thread.
class TcpControl {
 public:
  using Clock = ControlChannel::Clock;
  using Milliseconds = std::chrono::milliseconds;
  using Peer = ControlChannel::Peer;

  /// `news` is woken when the cause is set, and when a peer says that it ends, or has gone.
  TcpControl(const WorkerNames& names, int rank, const ActivityBoard& board,
             std::deque<TcpLinks>& links, FailureCause& cause, WakePipe& news)
      : names_(names),
        links_(links),
        cause_(cause),
        news_(news),
        watch_(names, rank, board, cause,
               [this](int to, const ControlFrame& frame, std::string_view text) {
                 send(to, frame, text);
               }) {}
  ~TcpControl() { stop(); }
  TcpControl(const TcpControl&) = delete;
  TcpControl& operator=(const TcpControl&) = delete;

  /// Begins with what was already read from the control connections. The `retired` ones are closed
  /// when the other side has closed them. Throws Error when the system has no thread left.
  void start(std::unique_ptr<ListeningPort> port, RetiredSockets retired) {
    port_ = std::move(port);
    retired_ = std::move(retired);
    {
      const std::lock_guard lock(mutex_);
      const auto now = Clock::now();
      for (int other = 0; other < channel_.size(); ++other) channel_.peer(other).heard = now;
      for (const int other : channel_.partners()) {
        channel_.peer(other).inbox = std::move(link(other).inbox);
        probes_.remember(other, names_.address(other), link(other).control.native_handle(),
                         link(other).incarnation);
        take(other, {}, now);
        if (link(other).control.tls != nullptr)
          (void)read(other, now);  // it may have bytes that were read before
      }
      conclude(now);
      outbox_.flush();
    }
    const SignalMask mask;
    thread_ = start_thread("answers to the other workers", [this] { serve(); });
  }

  void stop() noexcept {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.wake();
    thread_.join();
    port_.reset();
    retired_.clear();
  }

  /// Stops, and sends nothing more.
  void close() noexcept {
    stop();
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

  /// See ControlChannel.
  void set_awaited(int rank) noexcept { channel_.set_awaited(rank); }

  /// Calls f(channel), which looks at the conversation or says something.
  template <class F>
  auto with(F f) {
    const std::lock_guard lock(mutex_);
    const Sending sending(*this);
    return f(channel_);
  }

  /// The waiting thread of this rank has heard nothing from a peer for this long, or has lost a
  /// connection for data (`error`: errno, 0 if it is closed). Sooner or later a cause is set,
  /// unless all ranks turn out to be well.
  void miss(int other, Milliseconds silence) {
    doubt([&](Clock::time_point now) { watch_.miss(other, silence, now); });
  }
  void lose_data(int other, int error) {
    doubt([&](Clock::time_point now) { watch_.lose_data(other, error, now); });
  }

  /// Returns the cause that all ranks will name, and tells it to them.
  CollectiveFailure settle(CollectiveFailure failure) {
    const std::lock_guard lock(mutex_);
    const Sending sending(*this);
    failure = watch_.settle(std::move(failure));
    news_.wake();
    return failure;
  }

 private:
  [[nodiscard]] TcpLinks& link(int rank) noexcept { return links_[static_cast<std::size_t>(rank)]; }

  template <class F>
  void doubt(F f) {
    const std::lock_guard lock(mutex_);
    f(Clock::now());
    wake_.wake();
  }

  // For calls of other threads: what they have said leaves at once.
  struct Sending {
    explicit Sending(TcpControl& owner) : control(owner) {}
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;
    ~Sending() {
      if (control.outbox_.flush()) control.wake_.wake();
    }
    TcpControl& control;
  };

  void send(int to, const ControlFrame& frame, std::string_view text) {
    if (!closed_ && !channel_.peer(to).gone && link(to).control.is_open())
      outbox_.add(to, frame, text);
  }

  // --- the thread --------------------------------------------------------------------------------

  void serve() {
    try {
      serve_until_stopped();
    } catch (const std::exception& error) {  // out of memory, for example
      give_up(error.what());
    }
  }

  void give_up(std::string_view reason) noexcept {
    try {
      settle({.failed_rank = channel_.rank(),
              .reason = answering_thread_failed(reason),
              .code = ExitCode::failure});
    } catch (...) {  // the others find that this rank is silent
    }
  }

  void serve_until_stopped() {
    std::vector<pollfd> watched;
    std::vector<int> peers;  // the peers of watched[1] and following
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      watched.assign(1, {wake_.descriptor(), POLLIN, 0});
      peers.clear();
      for (const int other : channel_.partners())
        if (!channel_.peer(other).gone) {
          watched.push_back({link(other).control.native_handle(),
                             static_cast<short>(outbox_.is_full(other) ? POLLIN | POLLOUT : POLLIN),
                             0});
          peers.push_back(other);
        }
      retired_.watch(watched);
      auto due = std::min(watch_.due(), probes_.watch(watched));
      const std::size_t own = watched.size();
      lock.unlock();
      if (port_) due = std::min(due, port_->watch(watched));
      ::poll(watched.data(), watched.size(), time_until(due));
      if (port_) port_->serve(std::span(watched).subspan(own));
      lock.lock();
      wake_.drain();
      const auto now = Clock::now();
      retired_.serve(std::span(watched).subspan(1 + peers.size(), retired_.size()));
      bool has_lost = false;
      for (std::size_t i = 0; i < peers.size(); ++i)
        if (watched[1 + i].revents != 0) has_lost = !read(peers[i], now) || has_lost;
      if (has_lost) read_all(now);
      conclude(now);
      outbox_.flush();
    }
  }

  // A report of a failure comes before the end of its sender's connection, so all reports are read
  // before any rank counts as lost.
  void read_all(Clock::time_point now) {
    for (const int other : channel_.partners())
      if (!channel_.peer(other).gone) (void)read(other, now);
  }

  // Returns whether the connection still stands.
  bool read(int other, Clock::time_point now) {
    std::array<char, 4096> chunk;
    for (;;) {
      asio::error_code error;
      const std::size_t n = link(other).control.read_some(asio::buffer(chunk), error);
      if (error == asio::error::would_block) return true;
      if (error) {
        lose(other, error == asio::error::eof ? outbox_.reset_by(other) : error.value(), now);
        news_.wake();
        return false;
      }
      take(other, {chunk.data(), n}, now);
    }
  }

  void take(int other, std::string_view bytes, Clock::time_point now) {
    if (watch_.take(other, bytes, now)) news_.wake();
  }

  void lose(int other, int error, Clock::time_point now) {
    if (!watch_.lose(other, error, now)) return;
    // A connection that is closed was closed by the peer; a reset may come from the network.
    if (probes_.call(other, now)) watch_.look_for(other, error != 0);
  }

  void conclude(Clock::time_point now) {
    if (cause_.is_set()) return probes_.clear();
    if (!watch_.has_report())
      probes_.advance(
          now, [&](int other, PeerEvidence::Process outcome) { watch_.found(other, outcome); });
    if (watch_.conclude(now)) news_.wake();
  }

  const WorkerNames& names_;
  std::deque<TcpLinks>& links_;
  FailureCause& cause_;
  WakePipe& news_;
  WakePipe wake_;
  std::unique_ptr<ListeningPort> port_;
  RetiredSockets retired_;

  std::mutex mutex_;
  FailureWatch watch_;
  ControlChannel& channel_ = watch_.channel();
  ControlOutbox outbox_{links_, static_cast<std::size_t>(names_.size())};
  PortProbes probes_{static_cast<std::size_t>(names_.size())};
  bool stopping_ = false;
  bool closed_ = false;
  std::thread thread_;
};

}}}  // namespace lockstep::detail
