// A message on its way over TCP: see Tcp.
#pragma once

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/frame.hpp"
#include "lockstep/collectives/stripes.hpp"
#include "lockstep/collectives/tcp_links.ipp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// What one transfer sends to, or receives from, one peer: a frame and a stream. When the stream is empty, there is no message.
class TcpMessage {
 public:
  TcpMessage(int peer, const DataFrame& frame, TcpLinks& links)
      : peer_(peer), frame_(frame), bytes_(frame.encode()), links_(links), stripes_(links.data.size()) {}

  [[nodiscard]] int peer() const noexcept { return peer_; }
  /// The peer while something must move, else -1.
  [[nodiscard]] int awaited() const noexcept { return is_complete() ? -1 : peer_; }
  [[nodiscard]] bool is_complete() const noexcept { return done_ == frame_.length; }
  [[nodiscard]] bool has_frame() const noexcept { return frame_done_ == frame_bytes; }
  /// On which the next byte travels.
  [[nodiscard]] TcpSocket& connection() const { return links_.data[stripes_.at(done_).connection]; }
  [[nodiscard]] TcpLinks& links() const noexcept { return links_; }

  /// Send and receive as much as goes at once, in one call of the system, and return whether anything moved. An error that is more than
  /// "not now" is in `error`.
  bool send_some(Flow& flow, asio::error_code& error) {
    if (is_complete()) return false;
    std::span<const std::byte> ready = flow.outgoing();
    if (ready.empty() && has_frame()) return false;
    ready = ready.first(std::min(ready.size(), most_at_once()));
    const std::array parts{asio::const_buffer(bytes_.data() + frame_done_, frame_bytes - frame_done_),
                           asio::const_buffer(ready.data(), ready.size())};
    const std::size_t written = links_.pipe ? write_pipe(parts) : connection().write_some(parts, error);
    const std::size_t n = pass_frame(written);
    if (n > 0) flow.sent(n);
    return has_moved(error, written);
  }

  /// Before it is waited for that something can be sent, or received. Return whether it can after all.
  [[nodiscard]] bool wait_to_send() const { return links_.pipe && links_.pipe->writer.wait(); }
  [[nodiscard]] bool wait_to_receive() const { return links_.pipe && links_.pipe->reader.wait(); }

  /// Hears the bell.
  void hear(asio::error_code& error) const {
    std::array<std::byte, 64> bells;
    while (links_.data[0].read_some(asio::buffer(bells), error) == bells.size()) {
    }
    if (error == asio::error::would_block) error = {};
  }

  /// `got` counts the bytes. When the frame that comes does not fit, nothing of its stream goes into the flow.
  bool receive_some(Flow& flow, std::uint64_t& got, asio::error_code& error) {
    if (is_complete()) return false;
    std::span<std::byte> room = flow.incoming();
    room = room.first(std::min(room.size(), most_at_once()));
    const bool had_frame = has_frame();
    const std::array parts{asio::mutable_buffer(bytes_.data() + frame_done_, frame_bytes - frame_done_),
                           asio::mutable_buffer(room.data(), room.size())};
    const std::size_t read = links_.pipe ? read_pipe(parts) : connection().read_some(parts, error);
    got += read;
    const std::size_t n = pass_frame(read);
    if (!had_frame && has_frame()) fits_ = bytes_ == frame_.encode();
    if (!fits_) return false;
    if (n > 0) flow.received(n);
    return has_moved(error, read);
  }

  [[nodiscard]] bool fits() const noexcept { return fits_; }
  /// What is wrong with a frame that does not fit.
  [[nodiscard, gnu::cold]] CollectiveFailure mismatch(int own_rank) const {
    CollectiveFailure failure;
    failure.failed_rank = peer_;
    DataFrame got;
    if (!DataFrame::decode(bytes_, got)) {
      failure.reason = "sent something that is no message";
      return failure;
    }
    const auto text = [](const DataFrame& frame) {
      return concat({"message ", frame.sequence, ", ", to_string(frame.operation), " of ", frame.length, " bytes"});
    };
    failure.reason = concat({"is out of step: rank ", own_rank, " expected its ", text(frame_), ", and got its ",
                             text(got), "; all ranks must call the same operations with equal lengths"});
    failure.code = ExitCode::failure;  // it would happen again
    return failure;
  }

 private:
  // Of `n` bytes, the first may belong to the frame. Returns how many do not.
  std::size_t pass_frame(std::size_t n) noexcept {
    const std::size_t head = std::min(n, frame_bytes - frame_done_);
    frame_done_ += head;
    done_ += n - head;
    return n - head;
  }

  static bool has_moved(asio::error_code& error, std::size_t n) noexcept {
    if (error != asio::error::would_block) return !error && n > 0;
    error = {};
    return false;
  }

  // From a pipe, the peer can read while more is written.
  [[nodiscard]] std::size_t most_at_once() const noexcept {
    return links_.pipe ? Stripes::stripe_bytes : stripes_.at(done_).bytes;
  }

  std::size_t write_pipe(const std::array<asio::const_buffer, 2>& parts) {
    PipeWriter& writer = links_.pipe->writer;
    const std::size_t n = in_turn(parts, [&](const asio::const_buffer& part) {
      return writer.write({static_cast<const std::byte*>(part.data()), part.size()});
    });
    if (n > 0 && writer.reader_waits()) ring();
    return n;
  }

  std::size_t read_pipe(const std::array<asio::mutable_buffer, 2>& parts) {
    PipeReader& reader = links_.pipe->reader;
    const std::size_t n = in_turn(parts, [&](const asio::mutable_buffer& part) {
      return reader.read({static_cast<std::byte*>(part.data()), part.size()});
    });
    if (n > 0 && reader.writer_waits()) ring();
    return n;
  }

  // The second part's turn comes when the first is complete, and not when there is room again in the meantime.
  template <class Parts, class Move>
  static std::size_t in_turn(const Parts& parts, Move move) {
    const std::size_t first = move(parts[0]);
    return first < parts[0].size() ? first : first + move(parts[1]);
  }

  // When the bell cannot be rung, there are rings enough that have not been heard.
  void ring() {
    const std::byte bell{};
    asio::error_code ignored;
    links_.data[0].write_some(asio::buffer(&bell, 1), ignored);
  }

  int peer_;
  DataFrame frame_;
  FrameBytes bytes_;  // of the frame: what is to be sent, or what has come
  std::size_t frame_done_ = 0;
  bool fits_ = true;
  std::uint64_t done_ = 0;  // of the stream
  TcpLinks& links_;
  Stripes stripes_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
