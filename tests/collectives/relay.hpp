// A network between ranks that can be broken in many ways.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/harness.hpp"
#include "lockstep/net/listener.hpp"
#include "support/call_port.hpp"

namespace lockstep_test {

/// Stands before a rank's port: it listens at the rank's address in the cluster's list, and passes
/// everything on to the rank itself, which has the same port on another address of the loopback
/// interface. The first bytes of a connection say which rank has opened it.
class Relay {
 public:
  enum class Way { to_port, from_port };

  Relay() : inside_(listen_on("127.0.0.1", 0)), outside_(listen_on("127.0.0.2", port())) {
    thread_ = std::thread([this] { work(); });
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    stopping_ = true;
    thread_.join();
    for (const Line& line : lines_) {
      ::close(line.caller);
      ::close(line.called);
    }
    if (inside_ >= 0) ::close(inside_);
    ::close(outside_);
  }

  [[nodiscard]] std::string address() const { return "127.0.0.2:" + std::to_string(port_); }
  /// The socket that the rank behind it listens on.
  [[nodiscard]] int release() { return std::exchange(inside_, -1); }

  /// From now on, nothing passes between this rank and the one with the port in this direction, and
  /// neither of them is told.
  void cut(int from, Way way) {
    const std::lock_guard lock(mutex_);
    cuts_.push_back({from, way});
  }
  /// From now on, bits change on the way.
  void damage() { damages_ = true; }
  /// Resets the connections between them: all, or the one for control, or those for data.
  void reset(int from, bool control = true, bool data = true) {
    const std::lock_guard lock(mutex_);
    lines_.remove_if([&](Line& line) {
      if (line.from != from || !(line.is_control ? control : data)) return false;
      for (const int socket : {line.caller, line.called}) {
        const linger now{1, 0};
        ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        ::close(socket);
      }
      return true;
    });
  }

 private:
  // The beginning of a hello: see Hello.
  static constexpr std::size_t prefix_bytes = 40, channel_offset = 16, from_offset = 20;

  struct Line {
    int caller, called;
    int from = -1;
    bool is_control = true;
    std::string greeting{};  // until its rank is known
    bool caller_open = true, called_open = true;
  };
  struct Cut {
    int from;
    Way way;
  };

  [[nodiscard]] std::uint16_t port() const { return port_; }

  int listen_on(const char* host, std::uint16_t port) {
    auto socket = lockstep::detail::listen_at(host, port, 128);
    if (!socket.is_open())
      throw std::runtime_error("cannot listen on an address of the loopback interface");
    ::fcntl(socket.get(), F_SETFL, 0);  // it blocks
    port_ = static_cast<std::uint16_t>(
        lockstep::detail::port_of(lockstep::detail::own_name(socket.get())));
    return socket.release();
  }

  void work() {
    while (!stopping_) {
      std::vector<pollfd> watched{{outside_, POLLIN, 0}};
      {
        const std::lock_guard lock(mutex_);
        for (const Line& line : lines_) {
          if (line.caller_open && !is_cut(line, Way::to_port))
            watched.push_back({line.caller, POLLIN, 0});
          if (line.called_open && !is_cut(line, Way::from_port))
            watched.push_back({line.called, POLLIN, 0});
        }
      }
      if (::poll(watched.data(), watched.size(), 5) <= 0) continue;
      if (watched[0].revents != 0) accept();
      const std::lock_guard lock(mutex_);
      for (Line& line : lines_) {
        if (line.caller_open && !is_cut(line, Way::to_port))
          line.caller_open = pass(line.caller, line.called, &line);
        if (line.called_open && !is_cut(line, Way::from_port))
          line.called_open = pass(line.called, line.caller, nullptr);
      }
    }
  }

  [[nodiscard]] bool is_cut(const Line& line, Way way) const {
    return std::any_of(cuts_.begin(), cuts_.end(),
                       [&](const Cut& c) { return c.from == line.from && c.way == way; });
  }

  void accept() {
    const int caller = ::accept4(outside_, nullptr, nullptr, SOCK_CLOEXEC);
    if (caller < 0) return;
    auto called = call_port(port_);
    if (!called.is_open()) {  // the port is closed: the rank is connected to all, or has ended
      ::close(caller);
      return;
    }
    const std::lock_guard lock(mutex_);
    lines_.push_back({caller, called.release()});
  }

  // Returns false when nothing more comes.
  bool pass(int from, int to, Line* greeted) const {
    char bytes[65536];
    const ssize_t n = ::recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) {
      ::shutdown(to, SHUT_WR);
      return false;
    }
    if (greeted != nullptr && greeted->greeting.size() < prefix_bytes) {
      greeted->greeting.append(bytes, static_cast<std::size_t>(n));
      if (greeted->greeting.size() >= prefix_bytes) {
        std::int32_t from_rank = 0;
        std::memcpy(&from_rank, greeted->greeting.data() + from_offset, sizeof from_rank);
        greeted->from = from_rank;
        greeted->is_control = greeted->greeting[channel_offset] == 1;
      }
    }
    if (damages_) bytes[n / 2] = static_cast<char>(bytes[n / 2] ^ 4);
    for (ssize_t done = 0; done < n;) {
      const ssize_t sent =
          ::send(to, bytes + done, static_cast<std::size_t>(n - done), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      done += sent;
    }
    return true;
  }

  std::uint16_t port_ = 0;
  int inside_, outside_;
  std::atomic<bool> stopping_ = false, damages_ = false;
  std::mutex mutex_;
  std::list<Line> lines_;
  std::vector<Cut> cuts_;
  std::thread thread_;
};

/// The places of a cluster, each behind a relay.
struct RelayedCluster {
  explicit RelayedCluster(int size) : relays(static_cast<std::size_t>(size)) {
    for (const Relay& relay : relays) addresses.push_back(relay.address());
  }
  [[nodiscard]] Rendezvous place(int rank) {
    Rendezvous rendezvous;
    rendezvous.rank = rank;
    rendezvous.addresses = addresses;
    rendezvous.listen_socket = relays[static_cast<std::size_t>(rank)].release();
    return rendezvous;
  }
  /// The one between two ranks: the lower one is called.
  [[nodiscard]] Relay& between(int a, int b) {
    return relays[static_cast<std::size_t>(std::min(a, b))];
  }

  std::vector<Relay> relays;
  std::vector<std::string> addresses;
};

}  // namespace lockstep_test
