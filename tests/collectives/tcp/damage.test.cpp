// Bits that a relay changes between two ranks, so that TCP's own checksum is right.
#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>

#include "collectives/harness.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/handshake.hpp"

using namespace lockstep;
using namespace lockstep_test;
using namespace std::chrono_literals;

namespace {

/// What the relay changes: one bit of what follows the handshake on a connection for data.
struct Damage {
  int to;                // rank 0 (the callee) or 1
  std::uint16_t lane;    // connection for data
  std::uint64_t offset;  // bytes after the handshake
  int bit = 6;
};

sockaddr_in loopback(int host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<std::uint32_t>(host));
  address.sin_port = htons(port);
  return address;
}

/// Listens at rank 0's address, and passes everything on to the same port of 127.0.0.2, where
/// rank 0 listens.
class Relay {
 public:
  Relay(Listener listener, const Damage& damage)
      : listener_(std::move(listener)), damage_(damage), thread_([this] { run(); }) {}
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    over_ = true;
    thread_.join();
    for (const Side& side : sides_) ::close(side.socket);
  }
  [[nodiscard]] bool has_damaged() const { return has_damaged_; }

 private:
  struct Side {
    int socket;
    std::size_t other;     // index in sides_
    int to;                // the rank that gets the bytes from here
    std::string begin{};   // until the handshake of this side is over
    bool is_data = false;  // set by the caller's hello
    std::uint16_t lane = 0;
    std::uint64_t passed = 0;  // after the handshake
    bool ended = false;
  };

  void run() {
    while (!over_) {
      std::vector<pollfd> watched{{listener_.descriptor(), POLLIN, 0}};
      for (const Side& side : sides_) watched.push_back({side.ended ? -1 : side.socket, POLLIN, 0});
      if (::poll(watched.data(), watched.size(), 20) <= 0) continue;
      for (std::size_t i = 1; i < watched.size(); ++i)
        if (watched[i].revents != 0) pass(i - 1);
      if (watched[0].revents != 0) accept();
    }
  }

  void accept() {
    const int caller = ::accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    const int callee = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(1, listener_.port());
    if (::connect(callee, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(caller);
      ::close(callee);
      return;
    }
    sides_.push_back({caller, sides_.size() + 1, 0});
    sides_.push_back({callee, sides_.size() - 1, 1});
  }

  void pass(std::size_t index) {
    Side& side = sides_[index];
    std::array<char, 65536> bytes;
    const ssize_t n = ::recv(side.socket, bytes.data(), bytes.size(), 0);
    if (n <= 0) {
      side.ended = true;
      ::shutdown(sides_[side.other].socket, SHUT_WR);
      return;
    }
    change(side, bytes.data(), static_cast<std::size_t>(n));
    for (ssize_t sent = 0, now = 0; sent < n; sent += now) {
      now = ::send(sides_[side.other].socket, bytes.data() + sent,
                   static_cast<std::size_t>(n - sent), MSG_NOSIGNAL);
      if (now <= 0) return;
    }
  }

  void change(Side& side, char* bytes, std::size_t n) {
    std::size_t head = 0;
    while (head < n && (side.begin.size() < detail::Hello::prefix_bytes ||
                        side.begin.size() < detail::Hello::wanted(side.begin)))
      side.begin += bytes[head++];
    if (side.to == 0 && side.begin.size() >= detail::Hello::prefix_bytes) {  // sent by the caller
      Side& other = sides_[side.other];
      side.is_data = other.is_data = side.begin[16] == 0;
      side.lane = other.lane = static_cast<std::uint16_t>(side.begin[18]);
    }
    const std::uint64_t begin = side.passed;
    side.passed += n - head;
    if (!side.is_data || side.to != damage_.to || side.lane != damage_.lane ||
        damage_.offset < begin || damage_.offset >= side.passed)
      return;
    char& byte = bytes[head + (damage_.offset - begin)];
    byte = static_cast<char>(byte ^ (1 << damage_.bit));
    has_damaged_ = true;
  }

  Listener listener_;
  Damage damage_;
  std::vector<Side> sides_;
  std::atomic<bool> over_ = false;
  std::atomic<bool> has_damaged_ = false;
  std::thread thread_;
};

struct Outcome {
  std::vector<std::exception_ptr> thrown;
  std::array<std::vector<float>, 2> values;
};

/// Two ranks sum arrays of ones, three times.
Outcome sum_with(const Damage& damage, std::size_t count, CommunicationOptions options) {
  Listener port;
  Listener other;
  const int real = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(1, port.port());
  REQUIRE(::bind(real, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(real, 64) == 0);
  std::vector<Rendezvous> places(2);
  for (const std::size_t rank : {0U, 1U}) {
    places[rank].rank = static_cast<int>(rank);
    places[rank].addresses = {port.address(), other.address()};
  }
  places[0].listen_socket = real;
  places[1].listen_socket = other.release();
  Relay relay(std::move(port), damage);
  Outcome outcome;
  outcome.thrown = run_threads(2, [&](int rank) {
    auto ring = Ring<Tcp>::connect(places[static_cast<std::size_t>(rank)], options);
    std::vector<float>& values = outcome.values[static_cast<std::size_t>(rank)];
    for (int i = 0; i < 3; ++i) {
      values.assign(count, 1.0F);
      ring.all_reduce(std::span(values));
    }
    ring.close();
  });
  CHECK(relay.has_damaged());
  return outcome;
}

void check_named_by_both(const Damage& damage, std::size_t count,
                         const CommunicationOptions& options) {
  CAPTURE(damage.to);
  CAPTURE(damage.lane);
  CAPTURE(damage.offset);
  const Outcome outcome = sum_with(damage, count, options);
  for (const auto& exception : outcome.thrown) {
    const CollectiveFailure failure = failure_of(exception);
    CAPTURE(failure.reason);
    CHECK(failure.failed_rank == 1 - damage.to);
    CHECK(failure.code == ExitCode::lost_peer);
    CHECK(failure.reason.find("came to worker " + std::to_string(damage.to) +
                              " with bits changed on the way") != std::string::npos);
    CHECK(message_of(exception).find("worker " + std::to_string(1 - damage.to) + " (127.0.0.1:") !=
          std::string::npos);
  }
}

constexpr std::uint64_t frame = detail::DataFrame::size;
constexpr std::uint64_t sealed_block = (64 << 10) + 4;

CommunicationOptions checked_options() {
  CommunicationOptions options = patient_options();
  options.checksum = true;
  return options;
}

}  // namespace

TEST_SUITE("damage on the way") {
  TEST_CASE("to a short message, which is gathered, is named by both ranks") {
    constexpr std::size_t count = 100;
    for (const int to : {0, 1})
      for (const std::uint64_t offset :
           {std::uint64_t{5}, frame - 1, frame + 43, frame + 4 * count + 2})
        check_named_by_both({to, 0, offset}, count, checked_options());
    // The exponent of a value in the second message.
    check_named_by_both({0, 0, (frame + 4 * count + 4) + frame + 4 * 7 + 3}, count,
                        checked_options());
  }

  TEST_CASE("to a long message, which goes around the ring, is named by both ranks") {
    CommunicationOptions options = checked_options();
    options.implementation = CommunicationImplementation::ring;
    constexpr std::size_t count = 500'000;  // of which each rank sends 2 MB
    for (const int to : {0, 1})
      for (const std::uint64_t offset : {std::uint64_t{9}, frame + 3, frame + (64 << 10),
                                         frame + 7 * sealed_block + 4003, frame + 2'000'000})
        check_named_by_both({to, 0, offset}, count, options);
  }

  TEST_CASE("to any of several connections is named by both ranks") {
    CommunicationOptions options = checked_options();
    options.implementation = CommunicationImplementation::ring;
    options.connections = 3;
    for (const std::uint16_t lane : {std::uint16_t{1}, std::uint16_t{2}})
      for (const std::uint64_t offset : {std::uint64_t{3}, sealed_block - 1, sealed_block + 80'003})
        check_named_by_both({0, lane, offset}, 500'000, options);
  }

  TEST_CASE("goes into the sums where checksums are off") {
    CommunicationOptions options = checked_options();
    options.checksum = false;
    const Outcome outcome = sum_with({0, 0, 2 * (frame + 400) + frame + 43}, 100, options);
    rethrow_first(outcome.thrown);
    CHECK(outcome.values[0] != outcome.values[1]);
  }

  TEST_CASE("checksums on one rank alone are refused by name") {
    LocalCluster cluster(2);
    const std::array places{cluster.place(0), cluster.place(1)};
    const auto thrown = run_threads(2, [&](int rank) {
      CommunicationOptions options = checked_options();
      options.checksum = rank == 0;
      (void)Ring<Tcp>::connect(places[static_cast<std::size_t>(rank)], options);
    });
    CHECK(message_of(thrown[0]).find(
              "has CommunicationOptions::checksum off, this worker has on") != std::string::npos);
    CHECK(message_of(thrown[1]).find(
              "has CommunicationOptions::checksum on, this worker has off") != std::string::npos);
  }
}
