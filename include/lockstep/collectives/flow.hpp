// What an algorithm gives a transport to move: two streams of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// What one rank sends to one peer, and receives from one, in an operation. What is sent may depend
/// on what has been received: so the whole of a ring is one flow, in which a byte leaves as soon as
/// it is reduced.
///
/// (Virtual functions, because transports are compiled on their own; they are called once for some
/// 100 KiB.)
class Flow {
 public:
  /// Bytes of the whole stream, in each direction; the peers know the same numbers.
  [[nodiscard]] virtual std::uint64_t bytes_to_send() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes_to_receive() const = 0;

  /// Bytes from the next one to the end of its **part** of the stream. No byte of a part depends on
  /// a later part that arrives, so a transport may hold a part back until all of it is there. Both
  /// peers divide the stream into the same parts.
  [[nodiscard]] virtual std::uint64_t rest_of_part_to_send() const = 0;
  [[nodiscard]] virtual std::uint64_t rest_of_part_to_receive() const = 0;

  /// The next bytes of the stream that are known already; empty when they depend on bytes that have
  /// not arrived.
  [[nodiscard]] virtual std::span<const std::byte> outgoing() = 0;
  /// So many of them have been sent.
  virtual void sent(std::size_t bytes) = 0;

  /// Where the next bytes that arrive go; empty at the end only.
  [[nodiscard]] virtual std::span<std::byte> incoming() = 0;
  /// So many of them are there.
  virtual void received(std::size_t bytes) = 0;

 protected:
  ~Flow() = default;
};

/// One span out, one span in.
class SpanFlow final : public Flow {
 public:
  SpanFlow(std::span<const std::byte> out, std::span<std::byte> in) noexcept : out_(out), in_(in) {}

  [[nodiscard]] std::uint64_t bytes_to_send() const override { return out_.size(); }
  [[nodiscard]] std::uint64_t bytes_to_receive() const override { return in_.size(); }
  [[nodiscard]] std::uint64_t rest_of_part_to_send() const override { return out_.size() - sent_; }
  [[nodiscard]] std::uint64_t rest_of_part_to_receive() const override {
    return in_.size() - received_;
  }
  [[nodiscard]] std::span<const std::byte> outgoing() override { return out_.subspan(sent_); }
  void sent(std::size_t bytes) override { sent_ += bytes; }
  [[nodiscard]] std::span<std::byte> incoming() override { return in_.subspan(received_); }
  void received(std::size_t bytes) override { received_ += bytes; }

 private:
  std::span<const std::byte> out_;
  std::span<std::byte> in_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
};

}}  // namespace lockstep
