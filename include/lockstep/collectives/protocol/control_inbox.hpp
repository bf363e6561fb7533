// What arrives on a control connection, apart from any socket.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/collectives/protocol/frame.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

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

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
