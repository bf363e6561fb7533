// The receiving half of a transfer over TCP: see TcpMessage.
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
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/collectives/tcp/detail/links.hpp"
#include "lockstep/collectives/tcp/detail/message.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc32c.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/little_endian.hpp"
#include "lockstep/core/text.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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
    CollectiveFailure failure;
    failure.failed_rank = peer_;
    DataFrame got;
    const bool has_message = DataFrame::decode(bytes_, got);
    const auto text = [](const DataFrame& frame) {
      return concat({"message ", frame.sequence, ", ", to_string(frame.operation), " of ",
                     frame.length, " bytes"});
    };
    if (!has_message || got == frame_) {
      const std::string where = has_message ? concat({"bytes ", block_begin_, " to ", block_end_})
                                            : std::string("in its frame");
      const char* const remedy =
          "a network card, a switch, a proxy or the memory between the two changes data; start "
          "again, and look for "
          "the cause if it comes again";
      failure.reason = concat({"its ", text(frame_), ", came to ", own_name,
                               " with bits changed on the way (CRC-32C, ", where, "): ", remedy});
      return failure;
    }
    failure.reason =
        concat({"is out of step: ", own_name, " expected its ", text(frame_), ", and got its ",
                text(got), "; all workers must call the same operations with equal lengths"});
    failure.code = ExitCode::failure;  // it would happen again
    return failure;
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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
