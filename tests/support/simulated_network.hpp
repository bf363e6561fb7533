// A network of hosts under virtual time: what happens in it follows from a seed.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep_test {

/// Hosts with one process each, and connections between them that behave as TCP's do: bytes come in
/// order and whole, in other pieces than they were sent in, each direction and each connection with
/// delays of its own, so that what is said on two connections overtakes each other. A packet that
/// is lost is sent again later.
///
/// One thread runs everything: events, ordered by the virtual time and then by the order in which
/// they were made. Two runs with the same seed and the same calls are the same.
///
/// What may happen to it: a process ends (kill), is stopped and goes on (freeze, thaw), is started
/// again (start); a machine loses its power or its cable (vanish); packets pass no longer from one
/// host to another one, in one direction or both, for a while or for ever (cut, heal); a connection
/// is reset.
class SimulatedNetwork {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Duration = Clock::duration;
  using Milliseconds = std::chrono::milliseconds;

  /// Of all ways.
  struct Weather {
    Duration least = std::chrono::microseconds(50);  ///< delay of a packet
    Duration most = std::chrono::milliseconds(5);
    int loss = 0;  ///< of 1000 packets, how many are lost at first
    Duration again = std::chrono::milliseconds(200);
    std::size_t packet = 1400;   ///< bytes, at most
    std::size_t window = 16384;  ///< bytes of a connection that are sent and not read, at most
  };

  /// One end of a connection, which belongs to the process of its host.
  class Socket {
   public:
    /// Bytes, room or the end have come; called when the process runs.
    std::function<void()> on_change;

    [[nodiscard]] bool is_open() const noexcept { return open_; }
    /// All bytes have been read, and no more will come.
    [[nodiscard]] bool is_at_end() const noexcept { return ended_ && in_.empty(); }
    /// The peer is gone, though bytes may wait.
    [[nodiscard]] bool is_closed_by_peer() const noexcept { return ended_; }
    /// With the end: 0 if it was closed, else errno.
    [[nodiscard]] int error() const noexcept { return error_; }

   private:
    friend class SimulatedNetwork;
    struct Packet {
      Time due;
      std::string bytes;
      bool end = false;
      int error = 0;
    };
    int host_ = -1;
    int process_ = 0;
    std::weak_ptr<Socket> peer_;
    bool open_ = true;
    bool ended_ = false;
    int error_ = 0;
    std::string in_;
    std::deque<Packet> out_;
    std::size_t sent_unread_ = 0;  // of what this end has sent
    Time last_due_{};
  };
  using Pointer = std::shared_ptr<Socket>;

  SimulatedNetwork(int hosts, std::uint64_t seed, const Weather& weather)
      : weather_(weather),
        random_(seed * 0x9E3779B97F4A7C15u + 1),
        hosts_(static_cast<std::size_t>(hosts)),
        cuts_(static_cast<std::size_t>(hosts * hosts)),
        most_(cuts_.size(), std::string::npos) {}
  SimulatedNetwork(const SimulatedNetwork&) = delete;
  SimulatedNetwork& operator=(const SimulatedNetwork&) = delete;
  ~SimulatedNetwork() {
    for (const Host& each : hosts_)
      for (const auto& known : each.sockets)
        if (const Pointer socket = known.lock()) socket->on_change = nullptr;  // may hold it
  }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(hosts_.size()); }
  [[nodiscard]] Time now() const noexcept { return now_; }

  // --- chance ------------------------------------------------------------------------------------

  /// Below `limit`. (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
  /// generators", 2014.)
  std::uint64_t random(std::uint64_t limit) {
    std::uint64_t z = (random_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % limit;
  }
  int random_host() { return static_cast<int>(random(hosts_.size())); }
  Duration random_time(Duration least, Duration most) {
    return least + Duration(static_cast<Duration::rep>(
                       random(static_cast<std::uint64_t>((most - least).count()) + 1)));
  }

  // --- events ------------------------------------------------------------------------------------

  void at(Time time, std::function<void()> happen) {
    events_.push({std::max(time, now_), ++last_event_, std::move(happen)});
  }
  void after(Duration time, std::function<void()> happen) { at(now_ + time, std::move(happen)); }

  /// Something that the process of a host does at that time; not if it has ended by then, and later
  /// if it is frozen.
  void tell_at(Time time, int host, std::function<void()> act) {
    at(time, [this, host, process = this->host(host).process, act = std::move(act)] {
      tell(host, process, act);
    });
  }

  /// Until `is_done`, or until nothing happens before `end`; then it is that time.
  template <class Condition>
  void run_until(Time end, Condition is_done) {
    while (!is_done() && !events_.empty() && events_.top().time <= end) {
      now_ = events_.top().time;
      const auto happen = events_.top().happen;
      events_.pop();
      happen();
    }
    if (!is_done()) now_ = end;
  }

  // --- processes ---------------------------------------------------------------------------------

  /// The number of the process that runs on a host; 0 if there is none.
  [[nodiscard]] int process(int host) const { return hosts_[index(host)].process; }
  [[nodiscard]] bool is_alive(int host) const { return process(host) != 0; }
  [[nodiscard]] bool is_frozen(int host) const { return hosts_[index(host)].frozen; }

  /// A new process, the first one or another one.
  int start(int host) {
    Host& h = this->host(host);
    h.frozen = false;
    h.waiting.clear();
    return h.process = ++last_process_;
  }
  /// Its connections end, broken where bytes wait for it.
  void kill(int host) {
    Host& h = this->host(host);
    for (const auto& known : std::exchange(h.sockets, {}))
      if (const Pointer socket = known.lock(); socket && socket->open_)
        end(*socket, socket->in_.empty() ? 0 : ECONNRESET);
    h.process = 0;
    h.accept = nullptr;
    h.waiting.clear();
  }
  /// Without power: the process is gone, and nothing comes from that host or goes to it any more.
  void vanish(int host) {
    for (int other = 0; other < size(); ++other)
      if (other != host) {
        cut(host, other);
        cut(other, host);
      }
    kill(host);
  }
  /// SIGSTOP: its connections stand, and nothing is done.
  void freeze(int host) { this->host(host).frozen = true; }
  void thaw(int host) {
    this->host(host).frozen = false;
    const auto waiting = std::exchange(this->host(host).waiting, {});
    for (const auto& [process, act] : waiting) tell(host, process, act);
  }

  // --- ways --------------------------------------------------------------------------------------

  /// Packets no longer come from one host to another one.
  void cut(int from, int to) { cuts_[way(from, to)] = true; }
  void heal(int from, int to) { cuts_[way(from, to)] = false; }
  /// Packets of more bytes are lost on that way, however often they are sent.
  void narrow(int from, int to, std::size_t most) { most_[way(from, to)] = most; }
  [[nodiscard]] bool passes(int from, int to) const { return !cuts_[way(from, to)]; }

  // --- connections -------------------------------------------------------------------------------

  /// One that stands already: the end on `a`, and that on `b`.
  std::pair<Pointer, Pointer> connected(int a, int b) {
    const auto one = make(a), other = make(b);
    one->peer_ = other;
    other->peer_ = one;
    return {one, other};
  }

  /// The process of a host takes connections.
  void listen(int host, std::function<void(const Pointer&)> accept) {
    this->host(host).accept = std::move(accept);
  }

  /// `answer` gets a connection; or null and whether it was refused, if it was, and nothing came
  /// back otherwise.
  void connect(int from, int to, Duration patience,
               std::function<void(const Pointer& socket, bool refused)> answer) {
    const auto call = std::make_shared<std::function<void(Time)>>();
    const Time end = now_ + patience;
    const std::weak_ptr<std::function<void(Time)>> again = call;
    *call = [=, this, process = this->process(from), answer = std::move(answer)](Time end_of_call) {
      const auto self = again.lock();
      if (now_ > end_of_call) return tell(from, process, [answer] { answer(nullptr, false); });
      if (!passes(from, to) || !passes(to, from))
        return after(weather_.again, [self, end_of_call] { (*self)(end_of_call); });
      if (!host(to).accept || this->process(from) != process)
        return after(delay(),
                     [=, this] { tell(from, process, [answer] { answer(nullptr, true); }); });
      const auto [mine, theirs] = connected(from, to);
      const Pointer caller = mine, callee = theirs;
      tell(to, this->process(to), [this, to, callee] {
        if (const auto accept = host(to).accept) accept(callee);
      });
      after(delay(), [=, this] { tell(from, process, [=] { answer(caller, false); }); });
    };
    after(delay(), [call, end] { (*call)(end); });
  }

  /// Returns how many bytes fit.
  std::size_t write(Socket& socket, std::string_view bytes) {
    if (!socket.open_ || socket.ended_) return bytes.size();  // it goes nowhere
    const std::size_t room = weather_.window - std::min(weather_.window, socket.sent_unread_);
    bytes = bytes.substr(0, room);
    const std::size_t all = bytes.size();
    socket.sent_unread_ += all;
    while (!bytes.empty()) {
      const std::size_t n =
          1 + static_cast<std::size_t>(random(std::min(bytes.size(), weather_.packet)));
      post(socket, {.due = {}, .bytes = std::string(bytes.substr(0, n))});
      bytes.remove_prefix(n);
    }
    return all;
  }
  /// The same, whatever the window: for short messages.
  void send(Socket& socket, std::string bytes) {
    if (!socket.open_ || socket.ended_) return;
    socket.sent_unread_ += bytes.size();
    post(socket, {.due = {}, .bytes = std::move(bytes)});
  }

  /// At most so many bytes that have come.
  std::string read(Socket& socket, std::size_t most) {
    const std::size_t n = std::min(most, socket.in_.size());
    std::string bytes = socket.in_.substr(0, n);
    socket.in_.erase(0, n);
    if (const Pointer peer = socket.peer_.lock(); peer && n > 0) {
      const bool was_full = peer->sent_unread_ >= weather_.window;
      peer->sent_unread_ -= n;
      if (was_full) after(delay(), [this, peer] { notify(peer); });
    }
    return bytes;
  }

  /// The other end hears of it after what was sent before.
  void close(Socket& socket) {
    if (socket.open_) end(socket, 0);
  }

  /// Both ends break, each when it hears of it.
  void reset(Socket& socket) {
    const Pointer peer = socket.peer_.lock();
    if (!peer || !peer->open_ || !socket.open_) return;
    for (Socket* each : {&socket, peer.get()})
      post(*each, {.due = {}, .bytes = {}, .end = true, .error = ECONNRESET});
  }

 private:
  struct Event {
    Time time;
    std::uint64_t number;
    std::function<void()> happen;
    friend bool operator<(const Event& a, const Event& b) {
      return std::pair(a.time, a.number) > std::pair(b.time, b.number);  // the first one on top
    }
  };
  struct Host {
    int process = 0;
    bool frozen = false;
    std::deque<std::pair<int, std::function<void()>>> waiting;  // while it is frozen
    std::function<void(const Pointer&)> accept;
    std::vector<std::weak_ptr<Socket>> sockets;
  };

  static std::size_t index(int host) { return static_cast<std::size_t>(host); }
  [[nodiscard]] Host& host(int host) { return hosts_[index(host)]; }
  [[nodiscard]] std::size_t way(int from, int to) const {
    return index(from) * hosts_.size() + index(to);
  }

  Duration delay() {
    const Duration usual = random_time(weather_.least, weather_.most);
    return static_cast<int>(random(1000)) < weather_.loss ? usual + weather_.again : usual;
  }

  void tell(int host, int process, const std::function<void()>& act) {
    if (process == 0 || this->process(host) != process) return;
    if (is_frozen(host))
      this->host(host).waiting.emplace_back(process, act);
    else
      act();
  }

  Pointer make(int host) {
    auto socket = std::make_shared<Socket>();
    socket->host_ = host;
    socket->process_ = process(host);
    this->host(host).sockets.push_back(socket);
    return socket;
  }

  void post(Socket& socket, typename Socket::Packet packet) {
    packet.due = std::max(socket.last_due_, now_ + delay());
    socket.last_due_ = packet.due;
    socket.out_.push_back(std::move(packet));
    if (socket.out_.size() == 1)
      if (const Pointer peer = socket.peer_.lock()) deliver_later(peer);
  }
  void deliver_later(const Pointer& to) {
    const Pointer from = to->peer_.lock();
    if (from && !from->out_.empty())
      at(from->out_.front().due, [this, from, to] { deliver(*from, to); });
  }
  void deliver(Socket& from, const Pointer& to) {
    auto& packet = from.out_.front();
    if (!passes(from.host_, to->host_) || packet.bytes.size() > most_[way(from.host_, to->host_)]) {
      packet.due = now_ + weather_.again;
      return deliver_later(to);
    }
    if (!to->ended_) to->in_ += packet.bytes;
    if (packet.end && !to->ended_) {
      to->ended_ = true;
      to->error_ = packet.error;
    }
    from.out_.pop_front();
    notify(to);
    deliver_later(to);
  }
  void notify(const Pointer& socket) {
    tell(socket->host_, socket->process_, [socket] {
      const auto act = socket->on_change;  // which may set another one
      if (socket->open_ && act) act();
    });
  }
  void end(Socket& socket, int error) {
    post(socket, {.due = {}, .bytes = {}, .end = true, .error = error});
    socket.open_ = false;
    socket.on_change = nullptr;  // not called again, and may hold the socket
  }

  const Weather weather_;
  std::uint64_t random_;
  Time now_{std::chrono::hours(1)};
  std::priority_queue<Event> events_;
  std::uint64_t last_event_ = 0;
  int last_process_ = 0;
  std::vector<Host> hosts_;
  std::vector<char> cuts_;         // by from and to
  std::vector<std::size_t> most_;  // bytes of a packet
};

}  // namespace lockstep_test
