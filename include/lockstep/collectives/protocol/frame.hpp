// What precedes each message on a TCP connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/crc.hpp"
#include "lockstep/core/little_endian.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

inline constexpr std::size_t frame_bytes = 16;  // of a control frame
using FrameBytes = std::array<std::byte, frame_bytes>;

/// Heads each stream of Transport::transfer. The receiver knows what must come next, so it notices
/// a peer that is out of step before it sums any of its data. A CRC-32C of the frame tells such a
/// peer from bits that changed on the way.
struct DataFrame {
  static constexpr std::uint32_t magic = 0x44534C;  // "LSD"
  static constexpr std::size_t size = 20;           ///< bytes on the wire
  using Bytes = std::array<std::byte, size>;

  Operation operation = Operation::none;
  std::uint32_t sequence = 0;  ///< counts the messages from this sender to this receiver
  std::uint64_t length = 0;    ///< bytes that follow, without checksums

  friend constexpr bool operator==(const DataFrame&, const DataFrame&) = default;

  [[nodiscard]] Bytes encode() const noexcept {
    Bytes bytes{};
    put_number<3>(bytes.data(), magic);
    put_number<1>(&bytes[3], static_cast<std::uint8_t>(operation));
    put_number<4>(&bytes[4], sequence);
    put_number<8>(&bytes[8], length);
    put_number<4>(&bytes[16], checksum(bytes));
    return bytes;
  }
  /// Returns false when the bytes are no such frame.
  [[nodiscard]] static bool decode(const Bytes& bytes, DataFrame& frame) noexcept {
    if (get_number<3>(bytes.data()) != magic || get_number<4>(&bytes[16]) != checksum(bytes))
      return false;
    frame.operation = static_cast<Operation>(get_number<1>(&bytes[3]));
    frame.sequence = static_cast<std::uint32_t>(get_number<4>(&bytes[4]));
    frame.length = get_number<8>(&bytes[8]);
    return true;
  }
  /// CRC-32C of the bytes before it.
  [[nodiscard]] static std::uint32_t checksum(const Bytes& bytes) noexcept {
    return crc32c(std::span(bytes).first<16>());
  }
};

/// A message on the control connection.
struct ControlFrame {
  static constexpr std::uint32_t magic = 0x43534C;  // "LSC"
  static constexpr std::uint32_t longest = 2000;    ///< bytes of text
  /// Bytes of text with which a message fills one packet of TCP on Ethernet.
  static constexpr std::uint32_t packet = 1448 - frame_bytes;

  enum class Type : std::uint8_t {
    ready = 1,  ///< to rank 0: all my connections stand
    go,         ///< from rank 0: so do those of all
    abort,      ///< value: the rank that failed first (or -1), extra: exit code, text: the reason
    probe,      ///< are you there? extra: the question's number, text: none, or blanks
    waiting,    ///< yes; value: the rank I wait for, extra: the question's number, text: my work
    goodbye,    ///< I have come to my end
    farewell,   ///< from rank 0: all have
    doubt,      ///< a rank may be lost: find out which ranks you hear; extra: the round's number
    vote,       ///< value: the voter, extra: the round's number, text: encode_vote()
    relayed,    ///< value: its sender, extra: its receiver, text: a frame and its text
  };

  Type type = Type::abort;
  std::int32_t value = -1;
  std::int32_t extra = 0;
  std::uint32_t length = 0;  ///< bytes of text that follow

  friend constexpr bool operator==(const ControlFrame&, const ControlFrame&) = default;

  [[nodiscard]] constexpr FrameBytes encode() const noexcept {
    FrameBytes bytes{};
    put_number<3>(bytes.data(), magic);
    put_number<1>(&bytes[3], static_cast<std::uint8_t>(type));
    put_number<4>(&bytes[4], static_cast<std::uint32_t>(value));
    put_number<4>(&bytes[8], static_cast<std::uint32_t>(extra));
    put_number<4>(&bytes[12], length);
    return bytes;
  }
  /// Returns false when the bytes are no such frame, or one that is too long.
  [[nodiscard]] static constexpr bool decode(const FrameBytes& bytes,
                                             ControlFrame& frame) noexcept {
    if (get_number<3>(bytes.data()) != magic) return false;
    const auto type = get_number<1>(&bytes[3]);
    if (type < static_cast<std::uint8_t>(Type::ready) ||
        type > static_cast<std::uint8_t>(Type::relayed))
      return false;
    frame.type = static_cast<Type>(type);
    frame.value = static_cast<std::int32_t>(get_number<4>(&bytes[4]));
    frame.extra = static_cast<std::int32_t>(get_number<4>(&bytes[8]));
    frame.length = static_cast<std::uint32_t>(get_number<4>(&bytes[12]));
    return frame.length <= longest + (frame.type == Type::relayed ? frame_bytes : 0);
  }
};

/// Puts the messages of a control connection together from the pieces in which they arrive. What a
/// peer can make it hold is what one read brings and one message.
class ControlInbox {
 public:
  struct Message {
    ControlFrame frame;
    std::string_view text;  ///< until the next append() or pop()
  };

  void append(std::string_view bytes) { bytes_ += bytes; }
  /// Puts whole messages in front of what is there.
  void prepend(std::string_view messages) { bytes_.insert(0, messages); }

  /// The first message, as soon as all of it is there.
  [[nodiscard]] std::optional<Message> front() const {
    ControlFrame frame;
    if (!has_frame() || !ControlFrame::decode(first_frame(), frame)) return std::nullopt;
    if (bytes_.size() < frame_bytes + frame.length) return std::nullopt;
    return Message{frame, std::string_view(bytes_).substr(frame_bytes, frame.length)};
  }
  /// Removes it.
  void pop() { bytes_.erase(0, frame_bytes + front()->frame.length); }

  /// Whether what comes next is no control frame: nothing more can be read.
  [[nodiscard]] bool is_broken() const {
    ControlFrame ignored;
    return has_frame() && !ControlFrame::decode(first_frame(), ignored);
  }

 private:
  [[nodiscard]] bool has_frame() const noexcept { return bytes_.size() >= frame_bytes; }
  [[nodiscard]] FrameBytes first_frame() const noexcept {
    FrameBytes frame;
    std::memcpy(frame.data(), bytes_.data(), frame.size());
    return frame;
  }

  std::string bytes_;
};

/// The bytes of a message go over parallel connections in stripes of a fixed size, in turn, so that
/// both sides know without any header what travels where. Both go through the message in order:
/// what a connection brings early waits in the kernel's buffer. Each message begins on the first
/// connection, and a short one stays there.
class Stripes {
 public:
  static constexpr std::size_t stripe_bytes = std::size_t{128} << 10;

  struct Place {
    std::size_t connection;
    std::size_t bytes;  ///< from here on that travel together
  };

  explicit constexpr Stripes(std::size_t connections) noexcept : connections_(connections) {}

  /// Where the bytes of the message from `position` on travel.
  [[nodiscard]] constexpr Place at(std::uint64_t position) const noexcept {
    if (connections_ == 1) return {0, std::numeric_limits<std::size_t>::max()};
    return {position / stripe_bytes % connections_, stripe_bytes - position % stripe_bytes};
  }

 private:
  std::size_t connections_;
};

}}}  // namespace lockstep::detail
