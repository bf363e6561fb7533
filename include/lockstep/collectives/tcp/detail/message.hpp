// A message on its way over TCP: see Tcp.
#pragma once

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/failure_text.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/tcp/detail/socket.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

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

class TcpSending : public TcpMessage {
 public:
  TcpSending(int peer, const DataFrame& frame, TcpLinks& links) : TcpMessage(peer, frame, links) {}

  /// Whether something can be sent now.
  [[nodiscard]] bool is_ready(Flow& flow) const {
    return !is_complete() && (!has_frame() || has_only_seal() || !flow.outgoing().empty());
  }

  /// Call this before waiting until something can be sent. Returns true if it can be after all.
  [[nodiscard]] bool wait() const { return links_.pipe && links_.pipe->writer.wait(); }

  /// Sends as much as possible in one system call, and returns whether anything moved. `error` gets
  /// any error but "not now".
  bool send_some(Flow& flow, asio::error_code& error) {
    if (!is_ready(flow)) return false;
    begin_block(flow.rest_of_part_to_send());
    std::span<const std::byte> ready = flow.outgoing();
    ready = ready.first(std::min(ready.size(), rest_of_block()));
    // The last bytes of a block go with its seal, so that a short message is one packet.
    if (is_sealed_ && !has_seal_ && ready.size() == rest_of_block()) seal(ready);
    const std::size_t seal_left =
        has_seal_ && ready.size() == rest_of_block() ? seal_bytes - seal_done_ : 0;
    const std::array parts{
        asio::const_buffer(bytes_.data() + frame_done_, DataFrame::size - frame_done_),
        asio::const_buffer(ready.data(), ready.size()),
        asio::const_buffer(seal_.data() + seal_done_, seal_left)};
    const std::size_t written =
        links_.pipe ? write_pipe(parts) : connection().write_some(parts, error);
    const std::size_t n = pass(written).stream;
    if (is_sealed_ && !has_seal_) crc_ = crc32c(ready.first(n), crc_);
    if (n > 0) flow.sent(n);
    if (block_is_complete()) {
      has_seal_ = false;
      end_block();
    }
    return has_moved(error, written);
  }

 private:
  [[nodiscard]] bool has_only_seal() const noexcept { return has_seal_ && rest_of_block() == 0; }

  void seal(std::span<const std::byte> rest) noexcept {
    crc_ = crc32c(rest, crc_);
    put_number<seal_bytes>(seal_.data(), crc_);
    has_seal_ = true;
  }

  std::size_t write_pipe(const std::array<asio::const_buffer, 3>& parts) {
    PipeWriter& writer = links_.pipe->writer;
    const std::size_t n = in_turn(parts, [&](const asio::const_buffer& part) {
      return writer.write({static_cast<const std::byte*>(part.data()), part.size()});
    });
    if (n > 0 && writer.reader_waits()) ring();
    return n;
  }

  bool has_seal_ = false;  // the rest of the block is known and part of crc_
};

/// A block goes straight to where the flow wants it. Bytes that do not fit there (the flow's places
/// end where its packs do, not where the blocks do) are the **surplus**, which waits in a buffer of
/// its own until the block's seal has been verified.
class TcpReceiving : public TcpMessage {
 public:
  TcpReceiving(int peer, const DataFrame& frame, TcpLinks& links)
      : TcpMessage(peer, frame, links) {}

  /// Call this before waiting for something to receive. Returns true if something has come after
  /// all.
  [[nodiscard]] bool wait() const { return links_.pipe && links_.pipe->reader.wait(); }

  /// Receives as much as possible in one system call, and returns whether anything moved. `got`
  /// counts the bytes. `error` gets any error but "not now". If the frame or the seal is wrong,
  /// nothing of its block goes into the flow.
  bool receive_some(Flow& flow, std::uint64_t& got, asio::error_code& error) {
    if (is_complete()) return false;
    begin_block(flow.rest_of_part_to_receive());
    std::span<std::byte> room = flow.incoming().subspan(held_);
    room = room.first(std::min(room.size(), rest_of_block()));
    const std::span<std::byte> spare = room_for_surplus(rest_of_block() - room.size());
    const std::array parts{
        asio::mutable_buffer(bytes_.data() + frame_done_, DataFrame::size - frame_done_),
        asio::mutable_buffer(room.data(), room.size()),
        asio::mutable_buffer(spare.data(), spare.size()),
        asio::mutable_buffer(seal_.data() + seal_done_,
                             is_sealed_ ? seal_bytes - seal_done_ : std::size_t{0})};
    const bool had_frame = has_frame();
    const std::size_t read = links_.pipe ? read_pipe(parts) : connection().read_some(parts, error);
    got += read;
    const std::size_t n = pass(read).stream;
    if (!had_frame && has_frame() && bytes_ != frame_.encode()) fits_ = false;
    if (!fits_) return false;
    take(room.first(std::min(n, room.size())), spare.first(n - std::min(n, room.size())));
    if (!is_sealed_ || block_is_complete()) pass_on(flow);
    return fits_ && has_moved(error, read);
  }

  /// Whether the expected message has come, with the bits that were sent.
  [[nodiscard]] bool fits() const noexcept { return fits_; }
  /// The error for a message that is not the expected one.
  [[nodiscard, gnu::cold]] CollectiveFailure mismatch(std::string_view own_name) const {
    DataFrame got;
    const bool has_message = DataFrame::decode(bytes_, got);
    const auto text = [](const DataFrame& frame) {
      return concat({"message ", frame.sequence, ", ", to_string(frame.operation), " of ",
                     frame.length, " bytes"});
    };
    if (!has_message || got == frame_)
      return {
          .failed_rank = peer_,
          .reason = bits_changed(text(frame_), own_name,
                                 has_message ? concat({"bytes ", block_begin_, " to ", block_end_})
                                             : std::string("in its frame"))};
    return {.failed_rank = peer_,
            .reason = is_out_of_step(own_name, text(frame_), text(got)),
            .code = ExitCode::failure};  // it would happen again
  }

 private:
  std::span<std::byte> room_for_surplus(std::size_t bytes) {
    if (!is_sealed_ || bytes == 0) return {};
    if (links_.surplus.size() < block_bytes) links_.surplus = Buffer(block_bytes);
    return {links_.surplus.data() + surplus_, bytes};
  }

  void take(std::span<const std::byte> direct, std::span<const std::byte> surplus) noexcept {
    held_ += direct.size();
    surplus_ += surplus.size();
    if (!is_sealed_) return;
    crc_ = crc32c(direct, crc_);
    crc_ = crc32c(surplus, crc_);
  }

  // Call this when nothing is wrong with the bytes of the block so far.
  void pass_on(Flow& flow) {
    if (is_sealed_ && get_number<seal_bytes>(seal_.data()) != crc_) {
      fits_ = false;
      return;
    }
    if (held_ > 0) flow.received(std::exchange(held_, 0));
    for (std::span<const std::byte> rest(links_.surplus.data(), std::exchange(surplus_, 0));
         !rest.empty();) {
      const std::span<std::byte> room = flow.incoming();
      const std::size_t n = std::min(room.size(), rest.size());
      std::memcpy(room.data(), rest.data(), n);
      flow.received(n);
      rest = rest.subspan(n);
    }
    if (block_is_complete()) end_block();
  }

  std::size_t read_pipe(const std::array<asio::mutable_buffer, 4>& parts) {
    PipeReader& reader = links_.pipe->reader;
    const std::size_t n = in_turn(parts, [&](const asio::mutable_buffer& part) {
      return reader.read({static_cast<std::byte*>(part.data()), part.size()});
    });
    if (n > 0 && reader.writer_waits()) ring();
    return n;
  }

  bool fits_ = true;
  std::size_t held_ = 0;     // bytes of the block in the flow, not reported to it yet
  std::size_t surplus_ = 0;  // bytes of the block beyond that
};

}}}  // namespace lockstep::detail
