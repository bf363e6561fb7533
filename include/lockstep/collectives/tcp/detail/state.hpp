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
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/host/external_event.hpp"
#include "lockstep/collectives/host/launcher_notes.hpp"
#include "lockstep/collectives/host/wake_pipe.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/protocol/failure_cause.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/inquiry.hpp"
#include "lockstep/collectives/protocol/patience.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/tcp/detail/control_thread.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/collectives/tcp/detail/message.hpp"
#include "lockstep/collectives/tcp/detail/receiving.hpp"
#include "lockstep/collectives/tcp/detail/sending.hpp"
#include "lockstep/collectives/tcp/detail/startup.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
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
    TcpSending sending;
    TcpReceiving receiving;
    [[nodiscard]] bool is_complete() const noexcept { return sending.is_complete() && receiving.is_complete(); }
    [[nodiscard]] bool is_ready() const { return sending.is_ready(flow); }
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

  ~TcpState() {
    control.stop();
    close_sockets();
  }

  void start(const Rendezvous& rendezvous) {
    TcpStartup startup(io, rendezvous, options);
    links = startup.run();
    for (TcpLinks& link : links) {
      if (link.control.is_open()) set_keep_alive(link.control);
      for (Socket& socket : link.data) {
        set_keep_alive(socket);
        if (!options.congestion_control.empty()) set_congestion_control(socket);
      }
    }
    watched.reserve(2 + 2 * options.data_connections() + 1);
    if (size() > 1) control.start(startup.release_port());
    if (rank == 0 && size() > 1) log_line(concat({"Cluster is ready: ", size(), " workers."}));
  }

  // Even while nothing is in flight, the end of a peer's machine shows within the timeout.
  void set_keep_alive(Socket& socket) const {
    const int seconds = static_cast<int>(std::clamp<Milliseconds::rep>(options.timeout.count() / 1000, 6, 7200));
    for (const auto& [option, value] :
         {std::pair(TCP_KEEPIDLE, seconds / 3), std::pair(TCP_KEEPINTVL, seconds / 6), std::pair(TCP_KEEPCNT, 4)})
      ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
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

  // Tells everybody, once, and throws. To be called with `busy` held.
  [[noreturn, gnu::cold]] void fail(CollectiveFailure failure) {
    has_failed = true;
    failure = control.settle(std::move(failure));
    failure.operation = to_string(operation);
    failure.seconds = seconds();
    failure.bytes_done = operation_bytes;
    throw CollectiveError(std::move(failure));
  }

  // Of two that notice it at once, the lower one speaks, so that all name the same.
  [[noreturn, gnu::cold]] void out_of_step(const TcpReceiving& message) {
    CollectiveFailure failure = message.mismatch(rank);
    if (failure.code == ExitCode::failure) failure.reason += calls(Milliseconds(100) * std::min(rank, 9));
    fail(std::move(failure));
  }

  // The call of the program that each rank is in, as the end of a sentence; empty if no rank has
  // said it. Waits for the answers, at most a second and at least `least`.
  [[nodiscard, gnu::cold]] std::string calls(Milliseconds least) {
    const auto begin = Clock::now();
    control.with([&](ControlChannel& channel) {
      for (int other = 0; other < size(); ++other)
        if (other != rank) channel.ask(other, begin);
    });
    const auto have_all_answered = [&](const ControlChannel& channel) {
      for (int other = 0; other < size(); ++other)
        if (other != rank && !channel.peer(other).answered && !channel.peer(other).gone) return false;
      return true;
    };
    for (auto now = begin; now < begin + Milliseconds(1000); now = Clock::now()) {
      throw_if_failed();
      if (now >= begin + least && control.with(have_all_answered)) break;
      watched.clear();
      wait(Milliseconds(5), watch_news());
    }
    return control.with([&](const ControlChannel& channel) {
      std::string text;
      for (int other = 0; other < size(); ++other) {
        const std::string call = other != rank                  ? channel.peer(other).activity
                                 : activity.get() == Activity{} ? std::string()
                                                                : to_string(activity.get());
        if (!call.empty()) text += concat({"; rank ", other, " is in ", call});
      }
      return text;
    });
  }

  // A data connection is closed or broken: perhaps because its peer gave up, in which case its report is on the way.
  [[noreturn, gnu::cold]] void lose_data(int other, const asio::error_code& error) {
    control.lose_data(other, error == asio::error::eof ? 0 : error.value());
    for (const auto end = Clock::now() + 3 * Inquiry::time_to_answer; Clock::now() < end;) {
      if (control.with([&](const ControlChannel& c) { return c.peer(other).goodbye; }))
        fail(Patience::after_its_end(other, waiter()));
      watched.clear();
      wait(Milliseconds(20), watch_news());
      throw_if_failed();
    }
    fail(lost(other, concat({"lost a connection: ", error.message()})));
  }

  // --- waiting -----------------------------------------------------------------------------------------------------

  void watch(Socket& socket, short events) {
    if (socket.is_open()) watched.push_back({socket.native_handle(), events, 0});
  }

  // Returns its place in the list.
  std::size_t watch_news() {
    watched.push_back({news.descriptor(), POLLIN, 0});
    return watched.size() - 1;
  }

  // Waits until a watched socket is ready. Returns whether there is news.
  bool wait(Milliseconds time, std::size_t place_of_news) {
    const int ready =
        ::poll(watched.data(), watched.size(), static_cast<int>(std::clamp<long long>(time.count(), 0, 60'000)));
    if (ready <= 0 || watched[place_of_news].revents == 0) return false;
    news.drain();
    return true;
  }

  // What a peer has sent before it failed still arrives: for an operation that need not wait, its
  // failure comes too late.
  void throw_if_unusable() {
    if (has_failed) throw_if_failed();
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
    if (!transfer.receiving.fits()) out_of_step(transfer.receiving);
    if (error) lose_data(transfer.receiving.peer(), error);
    return moved;
  }

  void run(Transfer& transfer) {
    const Waiting waiting(control);
    Patience patience(waiter(), Clock::now());
    const TcpSending& sending = transfer.sending;
    const TcpReceiving& receiving = transfer.receiving;
    bool moved = true, heard = false, has_news = false;
    for (;;) {
      for (bool sent = true, received = true; sent || received; moved = moved || sent || received) {
        sent = send_some(transfer);
        received = receive_some(transfer);
        heard = heard || received;
      }
      if (transfer.is_complete()) return;
      if (std::exchange(moved, false)) {
        patience.moved(Clock::now(), std::exchange(heard, false));
        if (spins && spin(transfer)) {
          moved = heard = true;
          continue;
        }
      }
      throw_if_failed();
      const Milliseconds time = next(patience, receiving.awaited(), sending.awaited(), has_news);
      const bool is_ready = transfer.is_ready();
      if (is_ready && sending.wait()) continue;
      if (!receiving.is_complete() && receiving.wait()) continue;
      watched.clear();
      if (is_ready) watch(sending, POLLOUT);
      if (!receiving.is_complete()) watch(receiving, POLLIN);
      const std::size_t breaks_of_sending = watched.size();
      watch_breaks(sending);
      const std::size_t breaks_of_receiving = watched.size();
      watch_breaks(receiving);
      const std::size_t place_of_news = watch_news();
      has_news = wait(time, place_of_news);
      for (std::size_t i = breaks_of_sending; i < place_of_news; ++i)
        if (watched[i].revents != 0)
          lose_data(i < breaks_of_receiving ? sending.peer() : receiving.peer(), cause_of_break(watched[i].fd));
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
    const Waiting waiting(control);
    Patience patience(waiter(), Clock::now());
    while (!event.has_come()) {
      // A failure does not wake this thread.
      event.sleep(std::min(next(patience, other, -1, false), Milliseconds(20)));
      if (event.has_come()) return;  // a failure after it belongs to the next operation
      throw_if_failed();
    }
  }

  [[nodiscard]] Patience::Waiter waiter() const {
    return {rank, in_operation(operation), options.timeout, options.progress_limit(), addresses, &activity};
  }

  // Until its end, this rank says which rank it waits for when asked.
  struct Waiting {
    explicit Waiting(TcpControl& thread) noexcept : control(thread) {}
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting() { control.set_awaited(-1); }

    TcpControl& control;
  };

  // How long to sleep.
  Milliseconds next(Patience& patience, int receiving, int sending, bool has_news) {
    control.set_awaited(receiving >= 0 ? receiving : sending);
    const auto now = Clock::now();
    if (has_news || patience.is_due(now)) look(patience, receiving, sending, now);
    return patience.left(now);
  }

  [[gnu::cold]] void look(Patience& patience, int receiving, int sending, Clock::time_point now) {
    Patience::Advice advice =
        control.with([&](ControlChannel& channel) { return patience.look(channel, receiving, sending, now); });
    if (!advice.report.empty()) log_line(advice.report);
    if (advice.reported >= 0) note_waiting(addresses[static_cast<std::size_t>(advice.reported)]);
    if (!advice.failure) return;
    if (!advice.is_silence) fail(std::move(*advice.failure));
    control.miss(advice.failure->failed_rank, options.timeout);  // brings news, or it is well
  }

  // --- the end -----------------------------------------------------------------------------------------------------

  // Waits until condition(peer) holds for all peers that are still there, as long as they live;
  // names a peer for which it does not.
  template <class Condition>
  void wait_for_peers(int first, int last, Milliseconds limit, const char* what, Condition condition) {
    const Waiting waiting(control);
    Patience::Waiter waiter = this->waiter();
    waiter.doing = "at its end";
    waiter.timeout = std::min(waiter.timeout, limit);
    waiter.progress_limit = limit;
    waiter.at_end = true;
    Patience patience(waiter, Clock::now());
    bool has_news = false;
    for (;;) {
      const int missing = control.with([&](const ControlChannel& channel) {
        for (int other = first; other < last; ++other)
          if (other != rank && !channel.peer(other).gone && !condition(channel.peer(other))) return other;
        return -1;
      });
      if (missing < 0) return;
      throw_if_failed();
      control.set_awaited(missing);
      const auto now = Clock::now();
      if (has_news || patience.is_due(now)) {
        const Patience::Advice advice =
            control.with([&](ControlChannel& channel) { return patience.look(channel, missing, -1, now); });
        if (!advice.report.empty()) log_line(advice.report);
        if (advice.failure)
          return log_line(concat(
              {"warning: ", peer_name(addresses, advice.failure->failed_rank), " ", what,
               advice.is_silence ? ": it " + advice.failure->reason : concat({" within ", limit.count(), " ms"})}));
      }
      watched.clear();
      has_news = wait(patience.left(now), watch_news());
    }
  }

  void say_goodbye() {
    const auto say = [&](Frame::Type type) {
      control.with([&](ControlChannel& channel) { channel.say_to_all(type); });
    };
    constexpr const char* did_not_end = "did not end its work";
    say(Frame::Type::goodbye);
    if (rank != 0)
      return wait_for_peers(0, 1, options.progress_limit(), did_not_end, [](const auto& p) { return p.farewell; });
    wait_for_peers(1, size(), options.progress_limit(), did_not_end, [](const auto& p) { return p.goodbye; });
    say(Frame::Type::farewell);
    wait_for_peers(1, size(), std::min(options.timeout, Milliseconds(5000)), "did not leave",
                   [](const auto&) { return false; });
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

  const std::vector<std::string> addresses;
  const int rank;
  const CommunicationOptions options;
  bool spins = false;
  asio::io_context io{1};
  std::deque<TcpLinks> links;                        // by rank; there are none to this one
  std::vector<Counts> all_counts{addresses.size()};  // by rank
  std::vector<pollfd> watched;
  WakePipe news;  // from the control thread, and from abort() of another one
  FailureCause cause;
  ActivityBoard activity;
  TcpControl control{addresses, rank, activity, links, cause, news};

  std::mutex busy;  // held while the connections are in use
  Operation operation = Operation::none;
  Clock::time_point operation_begin = Clock::now();
  std::uint64_t operation_bytes = 0;
  bool is_closed = false;
  std::atomic<bool> has_failed = false;  // an operation of this rank, or its program
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
