// A message on its way over TCP: see Tcp.
#pragma once

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/protocol/stripes.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What one transfer sends to one peer (TcpSending) or receives from it (TcpReceiving): a frame and
/// a stream. If the stream is empty, there is no message.
///
/// On a connection with checksums the stream travels in **blocks** of up to 256 KiB, which end
/// where a part of the stream does (see Flow) or a stripe. After each block comes its **seal**, the
/// CRC-32C of the frame and of the stream up to there, so that no block can be lost, come twice, or
/// pass for another. A block is summed and passed on only after its seal has been verified: bits
/// that changed on the way go no further. Memory that two processes share needs no seals.
class TcpMessage {
 public:
  /// The cache still has it for the second pass.
  static constexpr std::size_t block_bytes = std::size_t{256} << 10;

  [[nodiscard]] int peer() const noexcept { return peer_; }
  /// The peer while something must move, else -1.
  [[nodiscard]] int awaited() const noexcept { return is_complete() ? -1 : peer_; }
  [[nodiscard]] bool is_complete() const noexcept { return block_begin_ == frame_.length; }
  /// On which the next byte travels.
  [[nodiscard]] TcpSocket& connection() const {
    return links_.data[stripes_.at(block_begin_).connection];
  }
  [[nodiscard]] TcpLinks& links() const noexcept { return links_; }

  /// Hears the bell.
  void hear(asio::error_code& error) const {
    std::array<std::byte, 64> bells;
    while (links_.data[0].read_some(asio::buffer(bells), error) == bells.size()) {
    }
    if (error == asio::error::would_block) error = {};
  }

 protected:
  static constexpr std::size_t seal_bytes = 4;
  using Seal = std::array<std::byte, seal_bytes>;

  /// How many bytes of each kind have been moved.
  struct Moved {
    std::size_t stream;
    std::size_t seal;
  };

  TcpMessage(int peer, const DataFrame& frame, TcpLinks& links)
      : peer_(peer),
        frame_(frame),
        bytes_(frame.encode()),
        links_(links),
        stripes_(links.data.size()),
        is_sealed_(links.checksum && !links.pipe),
        crc_(DataFrame::checksum(bytes_)) {}

  [[nodiscard]] bool has_frame() const noexcept { return frame_done_ == DataFrame::size; }
  /// Bytes of the block's part of the stream that have not moved.
  [[nodiscard]] std::size_t rest_of_block() const noexcept {
    return static_cast<std::size_t>(block_end_ - done_);
  }

  /// Counts `n` moved bytes, of which the first may belong to the frame and the last to the seal.
  Moved pass(std::size_t n) noexcept {
    const std::size_t head = std::min(n, DataFrame::size - frame_done_);
    frame_done_ += head;
    const std::size_t stream = std::min(n - head, rest_of_block());
    done_ += stream;
    const std::size_t seal = n - head - stream;
    seal_done_ += seal;
    return {stream, seal};
  }

  [[nodiscard]] bool block_is_complete() const noexcept {
    return done_ == block_end_ && (!is_sealed_ || seal_done_ == seal_bytes);
  }
  /// Call this before anything moves. The next block begins when the last one is complete; `part`
  /// is the number of bytes left in its part.
  void begin_block(std::uint64_t part) noexcept {
    if (std::exchange(in_block_, true)) return;
    block_end_ = done_ + std::min({frame_.length - done_, is_sealed_ ? part : frame_.length,
                                   most_in_block()});
    seal_done_ = 0;
  }
  void end_block() noexcept {
    block_begin_ = done_;
    in_block_ = false;
  }

  static bool has_moved(asio::error_code& error, std::size_t n) noexcept {
    if (error != asio::error::would_block) return !error && n > 0;
    error = {};
    return false;
  }

  /// Moves parts one after the other, by move(part). Each begins only when the one before it is
  /// complete, even if there is room in the meantime.
  template <class Parts, class Move>
  static std::size_t in_turn(const Parts& parts, Move move) {
    std::size_t all = 0;
    for (const auto& part : parts) {
      const std::size_t n = move(part);
      all += n;
      if (n < part.size()) break;
    }
    return all;
  }

  // When the bell cannot be rung, there are rings enough that have not been heard.
  void ring() {
    const std::byte bell{};
    asio::error_code ignored;
    links_.data[0].write_some(asio::buffer(&bell, 1), ignored);
  }

  int peer_;
  DataFrame frame_;
  DataFrame::Bytes bytes_;  // of the frame: what is to be sent, or what has come
  TcpLinks& links_;
  Stripes stripes_;
  bool is_sealed_;
  std::uint32_t crc_;  // of what has moved of frame and stream
  Seal seal_{};        // what is to be sent, or what has come
  std::size_t frame_done_ = 0;
  std::uint64_t done_ = 0;         // of the stream
  std::uint64_t block_begin_ = 0;  // in the stream
  std::uint64_t block_end_ = 0;
  bool in_block_ = false;
  std::size_t seal_done_ = 0;

 private:
  // The peer can read from a pipe while more is written.
  [[nodiscard]] std::uint64_t most_in_block() const noexcept {
    if (links_.pipe) return Stripes::stripe_bytes;
    const std::uint64_t stripe = stripes_.at(done_).bytes;
    return is_sealed_ ? std::min<std::uint64_t>(block_bytes, stripe) : stripe;
  }
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
