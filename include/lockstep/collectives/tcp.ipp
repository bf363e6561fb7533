#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/collectives/frame.hpp"
#include "lockstep/collectives/stripes.hpp"
#include "lockstep/collectives/tcp.hpp"
#include "lockstep/collectives/tcp_startup.ipp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

// Vocabulary: a **message** is what one transfer sends or receives, a frame and a stream. A wait **moves** when a byte of a
// message has been sent or received. The **cause** is the failure that all ranks name.
struct Tcp::State {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;
  using Socket = detail::TcpSocket;
  using Frame = detail::ControlFrame;

  struct Peer {
    std::deque<Socket>& data;
    Socket& control;
    std::uint32_t messages_sent = 0;
    std::uint32_t messages_received = 0;
    std::string inbox{};  // bytes of control frames that are not complete
    bool gone = false;    // its control connection is closed
    bool goodbye = false;
    bool farewell = false;
    bool answered = false;  // our probe, in this wait
    int waits_for = -1;     // what it answered
  };

  // One direction of a transfer.
  struct Message {
    int peer = -1;
    detail::FrameBytes frame{};
    std::size_t frame_done = 0;
    std::uint64_t bytes = 0;  // of the stream; a message without any is none at all
    std::uint64_t done = 0;
    [[nodiscard]] bool is_complete() const noexcept { return done == bytes; }
    [[nodiscard]] bool has_frame() const noexcept { return frame_done == detail::frame_bytes; }
  };

  struct Transfer {
    Flow& flow;
    Message sending;
    Message receiving;
    [[nodiscard]] bool is_complete() const noexcept { return sending.is_complete() && receiving.is_complete(); }
    // Whether something of the stream can be sent now.
    [[nodiscard]] bool is_ready() const {
      return !sending.is_complete() && (!sending.has_frame() || !flow.outgoing().empty());
    }
  };

  State(const Rendezvous& rendezvous, const CommunicationOptions& communication_options)
      : addresses(rendezvous.addresses), rank(rendezvous.rank), options(communication_options) {
    if (addresses.empty() || rank < 0 || rank >= size())
      throw ConfigurationError(concat({"rank ", rank, " has no place in a list of ", addresses.size(), " addresses"}));
    options.validate();
    spins = rendezvous.has_cores_for_all();
    if (::pipe(wake) != 0) throw Error(concat({"cannot make a pipe: ", std::strerror(errno)}));
    for (const int end : wake) {
      ::fcntl(end, F_SETFD, FD_CLOEXEC);
      ::fcntl(end, F_SETFL, O_NONBLOCK);
    }
  }

  ~State() {
    close_sockets();
    for (const int end : wake)
      if (end >= 0) ::close(end);
  }

  void start(const Rendezvous& rendezvous) {
    links = std::make_shared<detail::TcpStartup>(io, rendezvous, options)->run();
    for (detail::TcpLinks& link : links) peers.push_back({link.data, link.control});
    if (!options.congestion_control.empty())
      for (const Peer& p : peers)
        for (Socket& socket : p.data) set_congestion_control(socket);
    watched.reserve(peers.size() + 3 + 2 * options.data_connections());
    if (rank == 0 && size() > 1) log_line(concat({"Cluster is ready: ", size(), " workers."}));
  }

  void set_congestion_control(Socket& socket) const {
    const std::string& name = options.congestion_control;
    if (::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                     static_cast<socklen_t>(name.size())) == 0)
      return;
    throw ConfigurationError(concat({"CommunicationOptions::congestion_control: this system does not offer '", name,
                                     "': ", std::strerror(errno),
                                     "; /proc/sys/net/ipv4/tcp_allowed_congestion_control lists what it offers"}));
  }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(addresses.size()); }
  [[nodiscard]] Peer& peer(int r) noexcept { return peers[static_cast<std::size_t>(r)]; }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - operation_begin).count(); }

  // --- failure -----------------------------------------------------------------------------------------------------

  [[nodiscard]] CollectiveFailure lost(int failed, std::string reason) const {
    CollectiveFailure failure;
    failure.failed_rank = failed;
    failure.reason = std::move(reason);
    return failure;
  }

  // The first failure counts. Returns what all ranks shall name.
  CollectiveFailure set_failure(CollectiveFailure failure) {
    const std::lock_guard lock(failure_mutex);
    if (!has_failed) {
      cause = std::move(failure);
      if (cause.failed_rank >= 0 && cause.failed_rank < size())
        cause.address = addresses[static_cast<std::size_t>(cause.failed_rank)];
    }
    has_failed = true;
    return cause;
  }

  // Tells everybody, once, and throws. To be called with `busy` held.
  [[noreturn, gnu::cold]] void fail(CollectiveFailure failure) {
    failure = set_failure(std::move(failure));
    tell_others(failure);
    failure.operation = to_string(operation);
    failure.seconds = seconds();
    failure.bytes_done = operation_bytes;
    throw CollectiveError(std::move(failure));
  }

  void tell_others(const CollectiveFailure& failure) {
    if (std::exchange(others_know, true)) return;
    const std::string_view text = std::string_view(failure.reason).substr(0, Frame::longest);
    for (int other = 0; other < size(); ++other)
      send_control(other,
                   {.type = Frame::Type::abort,
                    .value = failure.failed_rank,
                    .extra = static_cast<std::int32_t>(failure.code),
                    .length = static_cast<std::uint32_t>(text.size())},
                   text);
  }

  // Control frames are few and short, so that they fit into the kernel's buffer at once; when a peer has not read them for
  // so long that they do not, it is lost anyway.
  void send_control(int to, const Frame& frame, std::string_view text = {}) {
    if (to == rank || peer(to).gone || !peer(to).control.is_open()) return;
    const detail::FrameBytes bytes = frame.encode();
    asio::error_code ignored;
    const std::array parts{asio::const_buffer(bytes.data(), bytes.size()),
                           asio::const_buffer(text.data(), text.size())};
    peer(to).control.write_some(parts, ignored);
  }

  // Reads what has come on the control connections. A report of a failure comes before the end of its sender's
  // connection, so that all reports are read before anybody counts as lost.
  void read_controls() {
    int closed = -1;
    for (int other = 0; other < size(); ++other)
      if (other != rank && !peer(other).gone && !read_control(other) && !peer(other).goodbye && closed < 0)
        closed = other;
    if (reported) fail(*reported);
    if (closed >= 0) fail(lost(closed, "closed the connection (its process ended)"));
  }

  // Returns false when the peer has closed it.
  bool read_control(int other) {
    Peer& p = peer(other);
    std::array<char, 1024> chunk;
    for (;;) {
      asio::error_code error;
      const std::size_t n = p.control.read_some(asio::buffer(chunk), error);
      if (error == asio::error::would_block) return true;
      p.gone = static_cast<bool>(error);
      if (error) return false;
      p.inbox.append(chunk.data(), n);
      while (take_control(other)) {
      }
    }
  }

  // Handles the first frame of the inbox, if it is complete.
  bool take_control(int other) {
    Peer& p = peer(other);
    if (p.inbox.size() < detail::frame_bytes) return false;
    detail::FrameBytes bytes;
    std::memcpy(bytes.data(), p.inbox.data(), bytes.size());
    Frame frame;
    if (!Frame::decode(bytes, frame)) fail(lost(other, "sent something that is no control frame"));
    if (p.inbox.size() < detail::frame_bytes + frame.length) return false;
    switch (frame.type) {
      case Frame::Type::abort:
        if (!reported) {
          reported =
              std::make_unique<CollectiveFailure>(lost(frame.value >= 0 && frame.value < size() ? frame.value : -1,
                                                       p.inbox.substr(detail::frame_bytes, frame.length)));
          reported->code = static_cast<ExitCode>(frame.extra);
        }
        break;
      case Frame::Type::probe:
        send_control(other, {.type = Frame::Type::waiting, .value = awaited});
        break;
      case Frame::Type::waiting:
        p.answered = true;
        p.waits_for = frame.value;
        break;
      case Frame::Type::goodbye:
        p.goodbye = true;
        break;
      case Frame::Type::farewell:
        p.farewell = true;
        break;
      case Frame::Type::ready:
      case Frame::Type::go:
        break;
    }
    p.inbox.erase(0, detail::frame_bytes + frame.length);
    return true;
  }

  // A data connection is closed or broken: perhaps because its peer gave up, in which case its report is on the way.
  [[noreturn, gnu::cold]] void lose_data(int other, const asio::error_code& error) {
    const auto end = Clock::now() + std::min(options.timeout, Milliseconds(1000));
    while (Clock::now() < end && !peer(other).gone) {
      watched.clear();
      watch(peer(other).control, POLLIN);
      ::poll(watched.data(), watched.size(), 10);
      read_controls();
    }
    if (peer(other).goodbye) lose_ended(other);
    fail(lost(other, error == asio::error::eof ? "closed the connection (its process ended)" : error.message()));
  }

  [[noreturn, gnu::cold]] void lose_ended(int other) {
    CollectiveFailure failure =
        lost(other, concat({"came to its end while rank ", rank, " in ", to_string(operation),
                            " still waits for it; all ranks must run the same number of steps"}));
    failure.code = ExitCode::failure;  // it would happen again
    fail(std::move(failure));
  }

  // --- waiting -----------------------------------------------------------------------------------------------------

  void watch(Socket& socket, short events) {
    if (socket.is_open()) watched.push_back({socket.native_handle(), events, 0});
  }

  void watch_controls() {
    watched.push_back({wake[0], POLLIN, 0});
    for (Peer& p : peers)
      if (!p.gone) watch(p.control, POLLIN);
  }

  // Waits until one of the sockets that are watched is ready; then reads the control connections, if some are.
  void wait(Milliseconds time, std::size_t first_control) {
    const int ready =
        ::poll(watched.data(), watched.size(), static_cast<int>(std::clamp<long long>(time.count(), 0, 60'000)));
    if (ready <= 0) return;
    if (watched[first_control].revents != 0) {
      drain_wake();
      throw_if_failed();
    }
    for (std::size_t i = first_control + 1; i < watched.size(); ++i)
      if (watched[i].revents != 0) return read_controls();
  }

  void throw_if_unusable() {
    throw_if_failed();
    if (is_closed) throw Error(concat({to_string(operation), ": the connections have been closed"}));
  }

  void drain_wake() {
    char bytes[16];
    while (::read(wake[0], bytes, sizeof bytes) > 0) {
    }
  }

  void throw_if_failed() {
    if (!has_failed) return;
    CollectiveFailure failure;
    {
      const std::lock_guard lock(failure_mutex);
      failure = cause;
    }
    fail(std::move(failure));
  }

  // --- transfer ----------------------------------------------------------------------------------------------------

  // Both move as much as goes at once, in one call of the system, and return whether they moved.
  bool send_some(Transfer& transfer) {
    Message& sending = transfer.sending;
    if (sending.is_complete()) return false;
    const detail::Stripes::Place place = stripes.at(sending.done);
    std::span<const std::byte> ready = transfer.flow.outgoing();
    if (ready.empty() && sending.has_frame()) return false;
    ready = ready.first(std::min(ready.size(), place.bytes));
    const std::array parts{
        asio::const_buffer(sending.frame.data() + sending.frame_done, detail::frame_bytes - sending.frame_done),
        asio::const_buffer(ready.data(), ready.size())};
    asio::error_code error;
    std::size_t n = peer(sending.peer).data[place.connection].write_some(parts, error);
    if (error == asio::error::would_block) return false;
    if (error) lose_data(sending.peer, error);
    const std::size_t head = std::min(n, detail::frame_bytes - sending.frame_done);
    sending.frame_done += head;
    n -= head;
    sending.done += n;
    if (n > 0) transfer.flow.sent(n);
    return true;
  }

  bool receive_some(Transfer& transfer) {
    Message& receiving = transfer.receiving;
    if (receiving.is_complete()) return false;
    const detail::Stripes::Place place = stripes.at(receiving.done);
    std::span<std::byte> room = transfer.flow.incoming();
    room = room.first(std::min(room.size(), place.bytes));
    const bool had_frame = receiving.has_frame();
    const std::array parts{
        asio::mutable_buffer(receiving.frame.data() + receiving.frame_done, detail::frame_bytes - receiving.frame_done),
        asio::mutable_buffer(room.data(), room.size())};
    asio::error_code error;
    std::size_t n = peer(receiving.peer).data[place.connection].read_some(parts, error);
    if (error == asio::error::would_block) return false;
    if (error) lose_data(receiving.peer, error);
    operation_bytes += n;
    const std::size_t head = std::min(n, detail::frame_bytes - receiving.frame_done);
    receiving.frame_done += head;
    if (!had_frame && receiving.has_frame()) check(receiving);
    n -= head;
    receiving.done += n;
    if (n > 0) transfer.flow.received(n);
    return true;
  }

  // On which the next byte of a message travels.
  [[nodiscard]] Socket& connection_of(const Message& message) {
    return peer(message.peer).data[stripes.at(message.done).connection];
  }

  void check(const Message& receiving) {
    detail::DataFrame got;
    const detail::DataFrame expected{operation, peer(receiving.peer).messages_received, receiving.bytes};
    if (!detail::DataFrame::decode(receiving.frame, got))
      fail(lost(receiving.peer, "sent something that is no message"));
    if (got == expected) return;
    const auto text = [](const detail::DataFrame& frame) {
      return concat({"message ", frame.sequence, ", ", to_string(frame.operation), " of ", frame.length, " bytes"});
    };
    CollectiveFailure failure =
        lost(receiving.peer, concat({"is out of step: rank ", rank, " expected its ", text(expected), ", and got its ",
                                     text(got), "; all ranks must call the same operations with equal lengths"}));
    failure.code = ExitCode::failure;  // it would happen again
    fail(std::move(failure));
  }

  void run(Transfer& transfer) {
    Patience patience(*this);
    bool moved = true;
    for (;;) {
      for (bool sent = true, received = true; sent || received; moved = moved || sent || received) {
        sent = send_some(transfer);
        received = receive_some(transfer);
      }
      if (transfer.is_complete()) return;
      if (std::exchange(moved, false)) {
        patience.begin();
        if (spins && spin(transfer)) {
          moved = true;
          continue;
        }
      }
      const Message& sending = transfer.sending;
      const Message& receiving = transfer.receiving;
      const Milliseconds time =
          patience.next(receiving.is_complete() ? -1 : receiving.peer, sending.is_complete() ? -1 : sending.peer);
      watched.clear();
      if (transfer.is_ready()) watch(connection_of(sending), POLLOUT);
      if (!receiving.is_complete()) watch(connection_of(receiving), POLLIN);
      const std::size_t first_other = watched.size();
      if (!sending.is_complete()) watch_breaks(sending.peer);
      if (!receiving.is_complete()) watch_breaks(receiving.peer);
      const std::size_t first_control = watched.size();
      watch_controls();
      wait(time, first_control);
      for (std::size_t i = first_other; i < first_control; ++i)
        if (watched[i].revents != 0) lose_data(owner_of(watched[i].fd), asio::error::eof);
    }
  }

  // A connection whose turn has not come yet may be broken.
  void watch_breaks(int other) {
    if (peer(other).data.size() == 1) return;
    for (Socket& socket : peer(other).data) watch(socket, POLLRDHUP);
  }

  [[nodiscard]] int owner_of(int descriptor) {
    for (int other = 0; other < size(); ++other)
      for (Socket& socket : peer(other).data)
        if (socket.native_handle() == descriptor) return other;
    return -1;
  }

  void await(int other, ExternalEvent& event) {
    Patience patience(*this);
    patience.begin();
    while (!event.has_come()) {
      // In the meantime nothing but this thread looks at the connections.
      event.sleep(std::min(patience.next(other, -1), Milliseconds(20)));
      watched.clear();
      watch_controls();
      wait(Milliseconds(0), 0);
    }
  }

  bool spin(Transfer& transfer) {
    const auto end = Clock::now() + std::chrono::microseconds(50);
    do {
      if (send_some(transfer) || receive_some(transfer)) return true;
    } while (Clock::now() < end);
    return false;
  }

  static constexpr Milliseconds report_interval{5000};
  static constexpr Milliseconds time_to_answer{1000};

  // How long a wait goes on without a move. The awaited ranks are asked whether they live: before each report, so that it names the
  // one that keeps everybody waiting and not one that waits itself, and in the middle of the time.
  class Patience {
   public:
    explicit Patience(State& state) : state_(state) {}

    void begin() {
      last_move_ = Clock::now();
      asked_ = false;
      next_report_ = report_interval;
      next_question_ = report_interval - time_to_answer;
    }

    // Waiting to receive from one rank and to send to one (-1: not): how long until there is something to do about it.
    Milliseconds next(int receiving, int sending) {
      const Milliseconds half = state_.options.timeout / 2;
      const auto idle = std::chrono::duration_cast<Milliseconds>(Clock::now() - last_move_);
      state_.awaited = receiving >= 0 ? receiving : sending;
      if (state_.ended(receiving, sending) >= 0 && !std::exchange(has_ended_, true)) {
        begin();  // what it sent before its end may still be on its way
        return next(receiving, sending);
      }
      if (idle >= next_report_) {  // before they are asked anew
        next_report_ += report_interval;
        if (const int silent = state_.suspect(receiving, sending); silent >= 0) state_.report_stall(silent, idle);
      }
      if (!asked_ && (idle >= half || idle >= next_question_)) {
        asked_ = idle >= half;
        next_question_ += report_interval;
        for (const int other : {receiving, sending})
          if (other >= 0) state_.ask(other);
      }
      const Milliseconds limit = state_.patience(receiving, sending);
      if (idle >= limit) state_.give_up(receiving, sending, idle);
      return std::max(Milliseconds(1), std::min(asked_ ? limit : std::min(half, next_question_), next_report_) - idle);
    }

   private:
    State& state_;
    Clock::time_point last_move_{};
    bool asked_ = false;
    bool has_ended_ = false;
    Milliseconds next_report_{};
    Milliseconds next_question_{};
  };

  void report_stall(int silent, Milliseconds idle) const {
    log_line(concat({"rank ", rank, " in ", to_string(operation), " waits since ", idle.count() / 1000, " s for ",
                     detail::peer_name(addresses, silent), ", which is busy or hangs; it counts as lost after ",
                     options.timeout.count(), " ms (CommunicationOptions::timeout)"}));
  }

  void ask(int other) {
    peer(other).answered = false;
    send_control(other, {.type = Frame::Type::probe});
  }

  // The first of the awaited ranks for which `condition` holds, or -1.
  template <class Condition>
  [[nodiscard]] int first_of(int receiving, int sending, Condition condition) noexcept {
    for (const int other : {receiving, sending})
      if (other >= 0 && condition(peer(other))) return other;
    return -1;
  }
  // The rank that hangs: the one that has not answered.
  [[nodiscard]] int suspect(int receiving, int sending) noexcept {
    return first_of(receiving, sending, [](const Peer& p) { return !p.answered; });
  }
  // Who has come to the end sends nothing more.
  [[nodiscard]] int ended(int receiving, int sending) noexcept {
    return first_of(receiving, sending, [](const Peer& p) { return p.goodbye; });
  }

  [[nodiscard]] Milliseconds patience(int receiving, int sending) noexcept {
    // What somebody sent before the end may still be on its way.
    if (ended(receiving, sending) >= 0) return std::min(options.timeout, Milliseconds(5000));
    return suspect(receiving, sending) >= 0 ? options.timeout : 2 * options.timeout;
  }

  [[noreturn, gnu::cold]] void give_up(int receiving, int sending, Milliseconds idle) {
    if (const int other = ended(receiving, sending); other >= 0) lose_ended(other);
    // (Without a word of this rank: two that notice it at once say the same.)
    if (const int silent = suspect(receiving, sending); silent >= 0)
      fail(lost(silent,
                concat({"was silent for more than ", options.timeout.count(), " ms (CommunicationOptions::timeout)"})));
    fail(lost(awaited, concat({"kept rank ", rank, " in ", to_string(operation), " waiting for ", idle.count(),
                               " ms (CommunicationOptions::timeout is ", options.timeout.count(),
                               " ms), while it waited for rank ", peer(awaited).waits_for, " itself"})));
  }

  // --- the end -----------------------------------------------------------------------------------------------------

  // Waits until condition(peer) holds for all peers that are still there; names those for which it does not.
  template <class Condition>
  void wait_for_peers(int first, int last, Milliseconds limit, const char* what, Condition condition) {
    const auto end = Clock::now() + limit;
    for (;;) {
      int missing = -1;
      for (int other = first; other < last; ++other)
        if (other != rank && !peer(other).gone && !condition(peer(other))) missing = other;
      if (missing < 0) return;
      const auto left = std::chrono::duration_cast<Milliseconds>(end - Clock::now());
      if (left.count() <= 0) {
        log_line(concat({"warning: ", detail::peer_name(addresses, missing), what, " within ", limit.count(), " ms"}));
        return;
      }
      watched.clear();
      watch_controls();
      wait(left, 0);
    }
  }

  void say_goodbye() {
    for (int other = 0; other < size(); ++other) send_control(other, {.type = Frame::Type::goodbye});
    if (rank != 0) {
      wait_for_peers(0, 1, options.timeout, " did not end its work", [](const Peer& p) { return p.farewell; });
      return;
    }
    wait_for_peers(1, size(), options.timeout, " did not end its work", [](const Peer& p) { return p.goodbye; });
    for (int other = 1; other < size(); ++other) send_control(other, {.type = Frame::Type::farewell});
    wait_for_peers(1, size(), std::min(options.timeout, Milliseconds(5000)), " did not leave",
                   [](const Peer&) { return false; });
  }

  void close_sockets() noexcept {
    asio::error_code ignored;
    std::array<char, 1024> rest;
    for (Peer& p : peers) {
      // With bytes that nobody read, closing would cut off what the peer has not read yet, perhaps the report of a failure.
      if (p.control.is_open())
        while (p.control.read_some(asio::buffer(rest), ignored) > 0 && !ignored) {
        }
      p.control.close(ignored);
      for (Socket& socket : p.data) socket.close(ignored);
    }
  }

  const std::vector<std::string> addresses;
  const int rank;
  const CommunicationOptions options;
  const detail::Stripes stripes{options.data_connections()};
  bool spins = false;
  asio::io_context io{1};
  std::deque<detail::TcpLinks> links;  // by rank; there are none to this one
  std::vector<Peer> peers;             // by rank
  std::vector<pollfd> watched;
  int wake[2] = {-1, -1};  // a pipe: abort() of another thread ends a wait

  std::mutex busy;  // held while the connections are in use
  Operation operation = Operation::none;
  Clock::time_point operation_begin = Clock::now();
  std::uint64_t operation_bytes = 0;
  int awaited = -1;
  std::unique_ptr<CollectiveFailure> reported;  // by a peer
  bool others_know = false;
  bool is_closed = false;

  std::mutex failure_mutex;
  std::atomic<bool> has_failed = false;
  CollectiveFailure cause;
};

LOCKSTEP_INLINE Tcp::Tcp(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
LOCKSTEP_INLINE Tcp::Tcp(Tcp&& other) noexcept = default;
LOCKSTEP_INLINE Tcp& Tcp::operator=(Tcp&& other) noexcept = default;
LOCKSTEP_INLINE Tcp::~Tcp() = default;

LOCKSTEP_INLINE Tcp Tcp::connect(const Rendezvous& rendezvous, const CommunicationOptions& options) {
  auto state = std::make_unique<State>(rendezvous, options);
  state->start(rendezvous);
  return Tcp(std::move(state));
}

LOCKSTEP_INLINE int Tcp::rank() const noexcept { return state_->rank; }
LOCKSTEP_INLINE int Tcp::size() const noexcept { return state_->size(); }

LOCKSTEP_INLINE void Tcp::begin(Operation operation) noexcept {
  state_->operation = operation;
  state_->operation_begin = State::Clock::now();
  state_->operation_bytes = 0;
}

LOCKSTEP_INLINE void Tcp::transfer(int to, int from, Flow& flow) {
  State& s = *state_;
  const std::lock_guard lock(s.busy);
  s.throw_if_unusable();
  State::Transfer transfer{.flow = flow,
                           .sending = {.peer = to, .bytes = flow.bytes_to_send()},
                           .receiving = {.peer = from, .bytes = flow.bytes_to_receive()}};
  if (!transfer.sending.is_complete())
    transfer.sending.frame =
        detail::DataFrame{s.operation, s.peer(to).messages_sent++, transfer.sending.bytes}.encode();
  const bool receives = !transfer.receiving.is_complete();
  s.run(transfer);
  if (receives) ++s.peer(from).messages_received;
}

LOCKSTEP_INLINE void Tcp::await(int peer, ExternalEvent& event) {
  State& s = *state_;
  const std::lock_guard lock(s.busy);
  s.throw_if_unusable();
  s.await(peer, event);
}

LOCKSTEP_INLINE void Tcp::fail(CollectiveFailure failure) {
  const std::lock_guard lock(state_->busy);
  state_->fail(std::move(failure));
}

LOCKSTEP_INLINE void Tcp::check() {
  if (!state_->has_failed && !state_->is_closed) return;
  const std::lock_guard lock(state_->busy);
  state_->throw_if_unusable();
}

LOCKSTEP_INLINE void Tcp::abort(std::string_view reason, ExitCode code) noexcept {
  State& s = *state_;
  try {
    CollectiveFailure failure = s.lost(s.rank, std::string(reason));
    failure.code = code;
    failure = s.set_failure(std::move(failure));
    // Another thread that is in an operation wakes up, tells the others and leaves.
    const char byte = 0;
    (void)!::write(s.wake[1], &byte, 1);
    for (int i = 0; i < 1000; ++i) {
      if (s.busy.try_lock()) {
        const std::lock_guard lock(s.busy, std::adopt_lock);
        s.tell_others(failure);
        return;
      }
      std::this_thread::sleep_for(State::Milliseconds(1));
    }
  } catch (...) {  // out of memory: the others see the connection closed
  }
}

LOCKSTEP_INLINE void Tcp::close() noexcept {
  if (state_ == nullptr) return;
  State& s = *state_;
  try {
    const std::lock_guard lock(s.busy);
    if (!s.is_closed && !s.has_failed) s.say_goodbye();
  } catch (const std::exception& error) {
    log_line(concat({"warning: at the end of the work: ", error.what()}));
  }
  const std::lock_guard lock(s.busy);  // abort() of another thread may be sending
  s.is_closed = true;
  s.close_sockets();
}

}  // namespace lockstep::inline LOCKSTEP_ABI
