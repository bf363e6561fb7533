// The sending half of a transfer over TCP: see TcpMessage.
#pragma once

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <cstddef>
#include <span>

#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/collectives/tcp/detail/message.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/little_endian.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
