// What Tcp does: see there.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/control_channel.hpp"
#include "lockstep/collectives/external_event.hpp"
#include "lockstep/collectives/failure_cause.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/frame.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/patience.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp_links.ipp"
#include "lockstep/collectives/tcp_message.ipp"
#include "lockstep/collectives/tcp_startup.ipp"
#include "lockstep/collectives/wake_pipe.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

// Vocabulary: a wait **moves** when a byte of a message has been sent or received. The **cause** is the failure that all ranks name.
struct TcpState {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;
  using Socket = TcpSocket;
  using Frame = ControlFrame;
  using Message = TcpMessage;

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

  struct Counts {  // of messages
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
  };

  TcpState(const Rendezvous& rendezvous, const CommunicationOptions& communication_options)
      : addresses(rendezvous.addresses), rank(rendezvous.rank), options(communication_options) {
    if (addresses.empty() || rank < 0 || rank >= size())
      throw ConfigurationError(concat({"rank ", rank, " has no place in a list of ", addresses.size(), " addresses"}));
    options.validate();
    spins = rendezvous.has_cores_for_all();
  }

  ~TcpState() { close_sockets(); }

  void start(const Rendezvous& rendezvous) {
    links = TcpStartup(io, rendezvous, options).run();
    if (!options.congestion_control.empty())
      for (TcpLinks& link : links)
        for (Socket& socket : link.data) set_congestion_control(socket);
    watched.reserve(links.size() + 3 + 2 * options.data_connections());
    for (int other = 0; other < size(); ++other) {
      control.peer(other).inbox = std::move(links_to(other).inbox);
      take(other, {});
    }
    if (control.reported()) set_cause(*control.reported());  // for the first operation
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
  [[nodiscard]] TcpLinks& links_to(int r) noexcept { return links[static_cast<std::size_t>(r)]; }
  [[nodiscard]] Counts& counts(int r) noexcept { return all_counts[static_cast<std::size_t>(r)]; }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - operation_begin).count(); }

  [[nodiscard]] Transfer transfer(int to, int from, Flow& flow) {
    const std::uint64_t out = flow.bytes_to_send(), in = flow.bytes_to_receive();
    // An empty stream makes no message, so that none is counted.
    return {flow,
            {to, {operation, out > 0 ? counts(to).sent++ : 0, out}, links_to(to)},
            {from, {operation, counts(from).received, in}, links_to(from)}};
  }

  // --- failure -----------------------------------------------------------------------------------------------------

  [[nodiscard]] static CollectiveFailure lost(int failed, std::string reason) {
    CollectiveFailure failure;
    failure.failed_rank = failed;
    failure.reason = std::move(reason);
    return failure;
  }

  // Returns what all ranks shall name.
  CollectiveFailure set_cause(CollectiveFailure failure) {
    if (failure.failed_rank >= 0 && failure.failed_rank < size())
      failure.address = addresses[static_cast<std::size_t>(failure.failed_rank)];
    return cause.set(std::move(failure));
  }

  // Tells everybody, once, and throws. To be called with `busy` held.
  [[noreturn, gnu::cold]] void fail(CollectiveFailure failure) {
    failure = set_cause(std::move(failure));
    control.report(failure);
    failure.operation = to_string(operation);
    failure.seconds = seconds();
    failure.bytes_done = operation_bytes;
    throw CollectiveError(std::move(failure));
  }

  // Control frames are few and short, so that they fit into the kernel's buffer at once; when a peer has not read them for
  // so long that they do not, it is lost anyway.
  void send_control(int to, const Frame& frame, std::string_view text) {
    if (control.peer(to).gone || !links_to(to).control.is_open()) return;
    const FrameBytes bytes = frame.encode();
    asio::error_code ignored;
    const std::array parts{asio::const_buffer(bytes.data(), bytes.size()),
                           asio::const_buffer(text.data(), text.size())};
    links_to(to).control.write_some(parts, ignored);
  }

  // Reads what has come on the control connections. A report of a failure comes before the end of its sender's
  // connection, so that all reports are read before anybody counts as lost.
  void read_controls() {
    int closed = -1;
    for (int other = 0; other < size(); ++other)
      if (other != rank && !control.peer(other).gone && !read_control(other) && !control.peer(other).goodbye &&
          closed < 0)
        closed = other;
    if (control.reported()) fail(*control.reported());
    if (closed >= 0) fail(lost(closed, ended_process));
  }

  // Returns false when the peer has closed it.
  bool read_control(int other) {
    std::array<char, 1024> chunk;
    for (;;) {
      asio::error_code error;
      const std::size_t n = links_to(other).control.read_some(asio::buffer(chunk), error);
      if (error == asio::error::would_block) return true;
      control.peer(other).gone = static_cast<bool>(error);
      if (error) return false;
      take(other, {chunk.data(), n});
    }
  }

  void take(int other, std::string_view bytes) {
    if (!control.take(other, bytes)) fail(lost(other, "sent something that is no control frame"));
  }

  // A data connection is closed or broken: perhaps because its peer gave up, in which case its report is on the way.
  [[noreturn, gnu::cold]] void lose_data(int other, const asio::error_code& error) {
    const auto end = Clock::now() + std::min(options.timeout, Milliseconds(1000));
    while (Clock::now() < end && !control.peer(other).gone) {
      watched.clear();
      watch(links_to(other).control, POLLIN);
      ::poll(watched.data(), watched.size(), 10);
      read_controls();
    }
    if (control.peer(other).goodbye) fail(Patience::after_its_end(other, waiter()));
    fail(lost(other, error == asio::error::eof ? ended_process : error.message()));
  }

  // --- waiting -----------------------------------------------------------------------------------------------------

  void watch(Socket& socket, short events) {
    if (socket.is_open()) watched.push_back({socket.native_handle(), events, 0});
  }

  void watch_controls() {
    watched.push_back({wake.descriptor(), POLLIN, 0});
    for (int other = 0; other < size(); ++other)
      if (!control.peer(other).gone) watch(links_to(other).control, POLLIN);
  }

  // Waits until one of the sockets that are watched is ready; then reads the control connections, if some are.
  void wait(Milliseconds time, std::size_t first_control) {
    const int ready =
        ::poll(watched.data(), watched.size(), static_cast<int>(std::clamp<long long>(time.count(), 0, 60'000)));
    if (ready <= 0) return;
    if (watched[first_control].revents != 0) {
      wake.drain();
      throw_if_failed();
    }
    for (std::size_t i = first_control + 1; i < watched.size(); ++i)
      if (watched[i].revents != 0) return read_controls();
  }

  void throw_if_unusable() {
    throw_if_failed();
    if (is_closed) throw Error(concat({to_string(operation), ": the connections have been closed"}));
  }

  void throw_if_failed() {
    if (cause.is_set()) fail(cause.get());
  }

  // --- transfer ----------------------------------------------------------------------------------------------------

  bool send_some(Transfer& transfer) {
    asio::error_code error;
    const bool moved = transfer.sending.send_some(transfer.flow, error);
    if (error) lose_data(transfer.sending.peer(), error);
    return moved;
  }

  bool receive_some(Transfer& transfer) {
    asio::error_code error;
    const bool moved = transfer.receiving.receive_some(transfer.flow, operation_bytes, error);
    if (!transfer.receiving.fits()) fail(transfer.receiving.mismatch(rank));
    if (error) lose_data(transfer.receiving.peer(), error);
    return moved;
  }

  void run(Transfer& transfer) {
    Patience patience(control, waiter(), Clock::now());
    const Message& sending = transfer.sending;
    const Message& receiving = transfer.receiving;
    bool moved = true;
    for (;;) {
      for (bool sent = true, received = true; sent || received; moved = moved || sent || received) {
        sent = send_some(transfer);
        received = receive_some(transfer);
      }
      if (transfer.is_complete()) return;
      if (std::exchange(moved, false)) {
        patience.restart(Clock::now());
        if (spins && spin(transfer)) {
          moved = true;
          continue;
        }
      }
      const Milliseconds time = next(patience, receiving.awaited(), sending.awaited());
      const bool is_ready = transfer.is_ready();
      if (is_ready && sending.wait_to_send()) continue;
      if (!receiving.is_complete() && receiving.wait_to_receive()) continue;
      watched.clear();
      if (is_ready) watch(sending, POLLOUT);
      if (!receiving.is_complete()) watch(receiving, POLLIN);
      const std::size_t breaks_of_sending = watched.size();
      watch_breaks(sending);
      const std::size_t breaks_of_receiving = watched.size();
      watch_breaks(receiving);
      const std::size_t first_control = watched.size();
      watch_controls();
      wait(time, first_control);
      for (std::size_t i = breaks_of_sending; i < first_control; ++i)
        if (watched[i].revents != 0)
          lose_data((i < breaks_of_receiving ? sending : receiving).peer(), cause_of_break(watched[i].fd));
      hear_bell(sending);
      hear_bell(receiving);
    }
  }

  void watch(const Message& message, short events) {
    if (message.links().pipe)
      watch(message.links().data[0], POLLIN);
    else
      watch(message.connection(), events);
  }

  void hear_bell(const Message& message) {
    if (message.is_complete() || !message.links().pipe) return;
    asio::error_code error;
    message.hear(error);
    if (error) lose_data(message.peer(), error);
  }

  // A connection whose turn has not come yet may be broken.
  void watch_breaks(const Message& message) {
    if (message.is_complete() || message.links().data.size() == 1) return;
    for (Socket& socket : message.links().data) watch(socket, POLLRDHUP);
  }

  static asio::error_code cause_of_break(int socket) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return asio::error::eof;
    return {error, asio::error::get_system_category()};
  }

  bool spin(Transfer& transfer) {
    const auto end = Clock::now() + std::chrono::microseconds(50);
    do {
      if (send_some(transfer) || receive_some(transfer)) return true;
    } while (Clock::now() < end);
    return false;
  }

  void await(int other, ExternalEvent& event) {
    Patience patience(control, waiter(), Clock::now());
    while (!event.has_come()) {
      // In the meantime nothing but this thread looks at the connections.
      event.sleep(std::min(next(patience, other, -1), Milliseconds(20)));
      watched.clear();
      watch_controls();
      wait(Milliseconds(0), 0);
    }
  }

  [[nodiscard]] Patience::Waiter waiter() const noexcept { return {rank, operation, options.timeout}; }

  // How long to sleep.
  Milliseconds next(Patience& patience, int receiving, int sending) {
    Patience::Advice advice = patience.next(receiving, sending, Clock::now());
    if (advice.stalled >= 0)
      log_line(
          concat({"rank ", rank, " in ", to_string(operation), " waits since ", advice.idle.count() / 1000, " s for ",
                  peer_name(addresses, advice.stalled), ", which is busy or hangs; it counts as lost after ",
                  options.timeout.count(), " ms (CommunicationOptions::timeout)"}));
    if (advice.failure) fail(std::move(*advice.failure));
    return advice.sleep;
  }

  // --- the end -----------------------------------------------------------------------------------------------------

  // Waits until condition(peer) holds for all peers that are still there; names those for which it does not.
  template <class Condition>
  void wait_for_peers(int first, int last, Milliseconds limit, const char* what, Condition condition) {
    const auto end = Clock::now() + limit;
    for (;;) {
      int missing = -1;
      for (int other = first; other < last; ++other)
        if (other != rank && !control.peer(other).gone && !condition(control.peer(other))) missing = other;
      if (missing < 0) return;
      const auto left = std::chrono::duration_cast<Milliseconds>(end - Clock::now());
      if (left.count() <= 0) {
        log_line(concat({"warning: ", peer_name(addresses, missing), what, " within ", limit.count(), " ms"}));
        return;
      }
      watched.clear();
      watch_controls();
      wait(left, 0);
    }
  }

  void say_goodbye() {
    using Peer = ControlChannel::Peer;
    control.say_to_all(Frame::Type::goodbye);
    if (rank != 0) {
      wait_for_peers(0, 1, options.timeout, " did not end its work", [](const Peer& p) { return p.farewell; });
      return;
    }
    wait_for_peers(1, size(), options.timeout, " did not end its work", [](const Peer& p) { return p.goodbye; });
    control.say_to_all(Frame::Type::farewell);
    wait_for_peers(1, size(), std::min(options.timeout, Milliseconds(5000)), " did not leave",
                   [](const Peer&) { return false; });
  }

  void close_sockets() noexcept {
    asio::error_code ignored;
    std::array<char, 1024> rest;
    for (TcpLinks& link : links) {
      // With bytes that nobody read, closing would cut off what the peer has not read yet, perhaps the report of a failure.
      if (link.control.is_open())
        while (link.control.read_some(asio::buffer(rest), ignored) > 0 && !ignored) {
        }
      link.control.close(ignored);
      for (Socket& socket : link.data) socket.close(ignored);
    }
  }

  static constexpr const char* ended_process = "closed the connection (its process ended)";

  const std::vector<std::string> addresses;
  const int rank;
  const CommunicationOptions options;
  bool spins = false;
  asio::io_context io{1};
  std::deque<TcpLinks> links;                        // by rank; there are none to this one
  std::vector<Counts> all_counts{addresses.size()};  // by rank
  ControlChannel control{rank, size(),
                         [this](int to, const Frame& frame, std::string_view text) { send_control(to, frame, text); }};
  std::vector<pollfd> watched;
  WakePipe wake;  // abort() of another thread ends a wait

  std::mutex busy;  // held while the connections are in use
  Operation operation = Operation::none;
  Clock::time_point operation_begin = Clock::now();
  std::uint64_t operation_bytes = 0;
  bool is_closed = false;

  FailureCause cause;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
