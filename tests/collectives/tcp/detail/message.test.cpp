// Messages between a sender and a receiver, over a wire that the test controls.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/collectives/tcp/detail/message.hpp"
#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/core/random.hpp"

using namespace lockstep;
using namespace lockstep::detail;

namespace {

std::vector<std::byte> random_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  RandomStream random(RandomKey(11));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// A flow whose places end after `most` bytes each, and whose parts after `part`, whatever blocks
/// there are.
class PieceFlow final : public Flow {
 public:
  PieceFlow(std::span<const std::byte> out, std::span<std::byte> in, std::size_t most,
            std::size_t part)
      : out_(out), in_(in), most_(most), part_(part) {}
  [[nodiscard]] std::uint64_t bytes_to_send() const override { return out_.size(); }
  [[nodiscard]] std::uint64_t bytes_to_receive() const override { return in_.size(); }
  [[nodiscard]] std::uint64_t rest_of_part_to_send() const override {
    return rest(sent_, out_.size());
  }
  [[nodiscard]] std::uint64_t rest_of_part_to_receive() const override {
    return rest(received_, in_.size());
  }
  [[nodiscard]] std::span<const std::byte> outgoing() override {
    return out_.subspan(sent_, std::min(most_ - sent_ % most_, out_.size() - sent_));
  }
  void sent(std::size_t bytes) override { sent_ += bytes; }
  [[nodiscard]] std::span<std::byte> incoming() override {
    return in_.subspan(received_, std::min(most_ - received_ % most_, in_.size() - received_));
  }
  void received(std::size_t bytes) override { received_ += bytes; }
  [[nodiscard]] std::size_t received_bytes() const { return received_; }

 private:
  [[nodiscard]] std::uint64_t rest(std::size_t position, std::size_t end) const {
    return std::min(part_ - position % part_, end - position);
  }

  std::span<const std::byte> out_;
  std::span<std::byte> in_;
  std::size_t most_;
  std::size_t part_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
};

/// One end of each connection belongs to a TcpLinks, the other one to the test.
struct End {
  explicit End(std::size_t connections, bool checksum) : links(io) {
    links.checksum = checksum;
    for (std::size_t i = 0; i < connections; ++i) {
      std::array<int, 2> pair{};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) ==
              0);
      links.data.emplace_back(io).assign(asio::ip::tcp::v4(), pair[0]);
      links.data.back().non_blocking(true);
      wires.push_back(pair[1]);
    }
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() {
    for (const int wire : wires) ::close(wire);
  }

  asio::io_context io;
  TcpLinks links;
  std::vector<int> wires;
};

struct Received {
  std::vector<std::byte> bytes;
  std::size_t taken = 0;  // bytes that the flow has heard of
  bool complete = false;
  bool fits = true;
  CollectiveFailure failure;
};

struct Setting {
  std::size_t connections = 1;
  std::size_t piece = 1 << 30;
  std::size_t chunk = 4096;  // bytes that the wire passes on at a time
  bool checksum = true;
  std::size_t part = std::size_t{1} << 30;
};

constexpr std::size_t nowhere = ~std::size_t{0};

/// Sends `message` and flips bit `flipped` of what travels on connection `lane`.
Received transfer(const std::vector<std::byte>& message, const Setting& setting,
                  std::size_t flipped = nowhere, std::size_t lane = 0) {
  End sender(setting.connections, setting.checksum),
      receiver(setting.connections, setting.checksum);
  Received result;
  result.bytes.resize(message.size());
  PieceFlow out(message, {}, setting.piece, setting.part),
      in({}, result.bytes, std::max<std::size_t>(1, setting.piece / 3), setting.part);
  const DataFrame frame{Operation::all_reduce, 3, message.size()};
  TcpSending sending(1, frame, sender.links);
  TcpReceiving receiving(0, frame, receiver.links);
  std::vector<std::size_t> passed(setting.connections);
  std::vector<std::byte> chunk(setting.chunk);
  std::uint64_t got = 0;
  asio::error_code error;
  for (bool moved = true; moved && !error && receiving.fits();) {
    moved = false;
    while (sending.send_some(out, error)) moved = true;
    for (std::size_t i = 0; i < setting.connections; ++i) {
      pollfd room{receiver.wires[i], POLLOUT, 0};
      if (::poll(&room, 1, 0) <= 0) continue;
      const ssize_t n = ::recv(sender.wires[i], chunk.data(), chunk.size(), 0);
      if (n <= 0) continue;
      const auto count = static_cast<std::size_t>(n);
      if (i == lane && flipped / 8 >= passed[i] && flipped / 8 < passed[i] + count)
        chunk[flipped / 8 - passed[i]] ^= std::byte{1} << flipped % 8;
      passed[i] += count;
      REQUIRE(::send(receiver.wires[i], chunk.data(), count, MSG_NOSIGNAL) == n);
      moved = true;
    }
    while (receiving.receive_some(in, got, error)) moved = true;
  }
  CHECK_FALSE(error);
  result.taken = in.received_bytes();
  result.complete = sending.is_complete() && receiving.is_complete();
  result.fits = receiving.fits();
  if (!result.fits) result.failure = receiving.mismatch("worker 1");
  return result;
}

constexpr std::size_t block = TcpMessage::block_bytes;

}  // namespace

TEST_SUITE("tcp messages") {
  TEST_CASE("arrive, whatever the pieces, blocks, connections and packets are") {
    for (const bool checksum : {true, false})
      for (const std::size_t size :
           {std::size_t{1}, std::size_t{400}, block - 1, block, block + 1, 5 * block + 77})
        for (const std::size_t connections : {1U, 3U})
          for (const std::size_t piece :
               {std::size_t{1} << 30, std::size_t{100'000}, std::size_t{30'001}})
            for (const auto& [chunk, part] :
                 {std::pair<std::size_t, std::size_t>{997, 1 << 30}, {20'000, 50'001}}) {
              CAPTURE(checksum);
              CAPTURE(size);
              CAPTURE(connections);
              CAPTURE(piece);
              const auto message = random_bytes(size);
              const Received received =
                  transfer(message, {connections, piece, chunk, checksum, part});
              CHECK(received.complete);
              CHECK(received.fits);
              CHECK(received.taken == size);
              CHECK(received.bytes == message);
            }
  }

  TEST_CASE(
      "any bit of a short message that is flipped on the way is noticed, and nothing of it is "
      "taken") {
    const auto message = random_bytes(60);
    for (std::size_t bit = 0; bit < 8 * (DataFrame::size + message.size() + 4); ++bit) {
      CAPTURE(bit);
      const Received received = transfer(message, {.piece = 50, .chunk = 33}, bit);
      CHECK_FALSE(received.fits);
      CHECK(received.taken == 0);
      CHECK(received.failure.failed_rank == 0);
      CHECK(received.failure.code == ExitCode::lost_peer);  // a retry may help
      CHECK(received.failure.reason.find(
                "its message 3, all_reduce of 60 bytes, came to worker 1 with bits changed on "
                "the way (CRC-32C, ") == 0);
    }
  }

  TEST_CASE("of a long message, the blocks before the damage are taken, and none from there on") {
    const std::size_t size = 4 * block + 1000;
    const auto message = random_bytes(size);
    struct Damage {
      std::size_t lane;
      std::size_t byte;  // of what travels on that connection
      std::size_t connections;
      std::size_t good;
    };
    constexpr std::size_t frame = DataFrame::size, stripe = Stripes::stripe_bytes;
    for (const Damage& damage :
         {Damage{0, frame + 5, 1, 0}, Damage{0, frame + block, 1, 0},  // a seal
          Damage{0, frame + block + 4, 1, block},
          Damage{0, frame + 4 * (block + 4) + 999, 1, 4 * block},
          Damage{0, frame + 4 * (block + 4) + 1003, 1, 4 * block},
          // Stripes go over the connections in turn, and end a block.
          Damage{1, 7, 2, stripe}, Damage{1, stripe + 4 + 7, 2, 3 * stripe}}) {
      CAPTURE(damage.lane);
      CAPTURE(damage.byte);
      for (const std::size_t piece : {std::size_t{1} << 30, std::size_t{99'000}}) {
        const Received received =
            transfer(message, {.connections = damage.connections, .piece = piece},
                     8 * damage.byte + 6, damage.lane);
        CHECK_FALSE(received.fits);
        CHECK(received.taken == damage.good);
        CHECK(received.failure.reason.find("bytes " + std::to_string(damage.good) + " to ") !=
              std::string::npos);
      }
    }
  }

  TEST_CASE("without checksums, damage to the stream goes through; that to the frame does not") {
    const auto message = random_bytes(60);
    const Received changed = transfer(message, {.checksum = false}, 8 * (DataFrame::size + 10));
    CHECK(changed.complete);
    CHECK(changed.bytes != message);
    CHECK_FALSE(transfer(message, {.checksum = false}, 8 * 5).fits);
  }
}
