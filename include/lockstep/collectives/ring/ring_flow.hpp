// All-reduce on a ring, as one flow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/ring/ring_route.hpp"
#include "lockstep/collectives/wire.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// Memory that ring flows use, one after the other.
struct RingStaging {
  Buffer received;
  Buffer encoded;
};

/// What one rank does in a ring's all-reduce of a status and an array (see RingRoute for the order). Values are combined in packs:
/// what has arrived of a pack waits in the staging memory, and goes on to the next rank as soon as it is combined. Complete sums
/// are received right into the array.
///
/// With a half-precision wire, each rank rounds the partial sum that it sends; the rank that completes a sum rounds it too, so that
/// all hold the same bits.
template <ReduceOp op, Reducible E, Wire wire = Wire::native>
class RingFlow final : public Flow {
  static constexpr bool is_native = wire == Wire::native;
  static_assert(is_native || std::is_same_v<E, float>);
  using Encoded = std::conditional_t<is_native, E, std::uint16_t>;

 public:
  /// `pack_bytes`: memory of a pack, at least 64.
  RingFlow(RingStaging& staging, std::size_t pack_bytes, int rank, int ranks, std::span<double> status,
           std::span<E> values)
      : staging_(staging),
        route_(Partition(values.size(), ranks), rank, !status.empty()),
        status_(status),
        values_(values),
        pack_bytes_(pack_bytes) {
    if (staging_.received.size() < pack_bytes) staging_.received = Buffer(pack_bytes);
    if (!is_native && staging_.encoded.size() < pack_bytes) staging_.encoded = Buffer(pack_bytes);
    for (int segment = 0; segment < route_.segments(); ++segment) {
      bytes_to_send_ += group_bytes(route_.sent_group(segment));
      bytes_to_receive_ += group_bytes(route_.received_group(segment));
    }
    sent_.skip_empty(route_, true);
    received_.skip_empty(route_, false);
  }

  [[nodiscard]] std::uint64_t bytes_to_send() const override { return bytes_to_send_; }
  [[nodiscard]] std::uint64_t bytes_to_receive() const override { return bytes_to_receive_; }

  [[nodiscard]] std::uint64_t rest_of_part_to_send() const override {
    if (sent_.segment == route_.segments()) return 0;
    const int group = route_.sent_group(sent_.segment);
    if (route_.is_status(group, sent_.piece)) return status_.size_bytes() - out_bytes_;
    return (route_.elements(group, sent_.piece).count - sent_.done) * sizeof(Encoded) - out_bytes_;
  }
  [[nodiscard]] std::uint64_t rest_of_part_to_receive() const override {
    if (received_.segment == route_.segments()) return 0;
    return (elements() - received_.done) * element_bytes() - in_bytes_;
  }

  [[nodiscard]] std::span<const std::byte> outgoing() override {
    if (sent_.segment == route_.segments()) return {};
    const int group = route_.sent_group(sent_.segment);
    const std::size_t ready = ready_elements(group);
    if (route_.is_status(group, sent_.piece))
      return std::as_bytes(status_).subspan(out_bytes_, ready * sizeof(double) - out_bytes_);
    const Piece piece = route_.elements(group, sent_.piece);
    if constexpr (is_native) {
      return std::as_bytes(values_.subspan(piece.offset, ready)).subspan(out_bytes_);
    } else {
      if (out_bytes_ == encoded_bytes_) {
        const std::size_t count = std::min(pack_bytes_ / sizeof(Encoded), ready - sent_.done);
        encode<wire>(encoded(), values_.data() + piece.offset + sent_.done, count);
        encoded_bytes_ = count * sizeof(Encoded);
        out_bytes_ = 0;
      }
      return {staging_.encoded.data() + out_bytes_, encoded_bytes_ - out_bytes_};
    }
  }

  void sent(std::size_t bytes) override {
    const int group = route_.sent_group(sent_.segment);
    out_bytes_ += bytes;
    const bool is_status = route_.is_status(group, sent_.piece);
    const std::size_t elements = is_status ? status_.size() : route_.elements(group, sent_.piece).count;
    if (is_status || is_native) {
      if (out_bytes_ < elements * (is_status ? sizeof(double) : sizeof(E))) return;
    } else {
      if (out_bytes_ < encoded_bytes_) return;
      sent_.done += encoded_bytes_ / sizeof(Encoded);
      out_bytes_ = encoded_bytes_ = 0;
      if (sent_.done < elements) return;
    }
    out_bytes_ = 0;
    sent_.next_piece(route_, true);
  }

  [[nodiscard]] std::span<std::byte> incoming() override {
    if (received_.segment == route_.segments()) return {};
    const std::size_t left = elements() - received_.done;
    if (is_direct())
      return target().subspan(received_.done * element_bytes() + in_bytes_, left * element_bytes() - in_bytes_);
    return {staging_.received.data() + in_bytes_, std::min(pack(), left) * element_bytes() - in_bytes_};
  }

  void received(std::size_t bytes) override {
    in_bytes_ += bytes;
    const std::size_t left = elements() - received_.done;
    const std::size_t count = is_direct() ? in_bytes_ / element_bytes() : std::min(pack(), left);
    if (count == 0 || in_bytes_ < count * element_bytes()) return;
    if (!is_direct()) take(count);
    in_bytes_ -= count * element_bytes();
    received_.done += count;
    if (received_.done == elements()) received_.next_piece(route_, false);
  }

 private:
  [[nodiscard]] std::uint64_t group_bytes(int group) const noexcept {
    std::uint64_t bytes = 0;
    for (std::size_t piece = 0; piece < route_.pieces(group); ++piece)
      bytes +=
          route_.is_status(group, piece) ? status_.size_bytes() : route_.elements(group, piece).count * sizeof(Encoded);
    return bytes;
  }

  // How many elements of the piece that is being sent are known.
  [[nodiscard]] std::size_t ready_elements(int group) const noexcept {
    const std::size_t all =
        route_.is_status(group, sent_.piece) ? status_.size() : route_.elements(group, sent_.piece).count;
    if (sent_.segment == 0) return all;
    const int source = sent_.segment - 1;
    if (received_.segment != source) return received_.segment > source ? all : sent_.done;
    return received_.piece > sent_.piece ? all : received_.piece == sent_.piece ? received_.done : sent_.done;
  }

  // Of the piece that is being received:
  [[nodiscard]] bool is_status() const noexcept {
    return route_.is_status(route_.received_group(received_.segment), received_.piece);
  }
  [[nodiscard]] Piece piece() const noexcept {
    return route_.elements(route_.received_group(received_.segment), received_.piece);
  }
  [[nodiscard]] std::size_t elements() const noexcept { return is_status() ? status_.size() : piece().count; }
  [[nodiscard]] std::size_t element_bytes() const noexcept { return is_status() ? sizeof(double) : sizeof(Encoded); }
  [[nodiscard]] std::size_t pack() const noexcept { return pack_bytes_ / element_bytes(); }
  [[nodiscard]] bool is_direct() const noexcept {
    return !route_.is_reduced(received_.segment) && (is_native || is_status());
  }
  [[nodiscard]] std::span<std::byte> target() const noexcept {
    if (is_status()) return std::as_writable_bytes(status_);
    return std::as_writable_bytes(values_.subspan(piece().offset, piece().count));
  }

  // Takes a pack out of the staging memory.
  void take(std::size_t count) noexcept {
    const std::byte* const source = staging_.received.data();
    if (is_status()) {
      double* const own = status_.data() + received_.done;
      combine<op>(own, reinterpret_cast<const double*>(source), static_cast<const double*>(own), count);
      return;
    }
    E* const own = values_.data() + piece().offset + received_.done;
    if constexpr (is_native) {
      combine<op>(own, reinterpret_cast<const E*>(source), static_cast<const E*>(own), count);
    } else {
      const auto* const halves = reinterpret_cast<const std::uint16_t*>(source);
      if (!route_.is_reduced(received_.segment)) return decode<wire>(own, halves, count);
      decode_add<wire>(own, halves, count);
      if (route_.is_complete(received_.segment)) round_to_wire<wire>(own, count);
    }
  }

  [[nodiscard]] std::uint16_t* encoded() noexcept { return reinterpret_cast<std::uint16_t*>(staging_.encoded.data()); }

  RingStaging& staging_;
  RingRoute route_;
  std::span<double> status_;
  std::span<E> values_;
  std::size_t pack_bytes_;
  std::uint64_t bytes_to_send_ = 0;
  std::uint64_t bytes_to_receive_ = 0;
  RingPosition sent_;
  RingPosition received_;
  std::size_t out_bytes_ = 0;  // sent of the piece, or of what is encoded
  std::size_t encoded_bytes_ = 0;
  std::size_t in_bytes_ = 0;  // received, and not yet taken
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail
