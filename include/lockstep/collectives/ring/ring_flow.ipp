#pragma once

#include <algorithm>

#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/ring/ring_flow.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

LOCKSTEP_INLINE RingFlow::RingFlow(RingStaging& staging, std::size_t pack_bytes, int rank,
                                   int ranks, std::span<double> status, NumberSpan values,
                                   ReduceOp op, Wire wire, std::span<float> residuals,
                                   RingHalf half)
    : staging_(staging),
      route_(Partition(values.size(), ranks), rank, !status.empty(), half),
      status_(status),
      values_(values),
      op_(op),
      wire_(wire),
      residuals_(residuals),
      wire_bytes_(wire == Wire::native ? size_of(values.type()) : sizeof(std::uint16_t)),
      pack_bytes_(pack_bytes) {
  if (staging_.received.size() < pack_bytes) staging_.received = Buffer(pack_bytes);
  if (!is_native() && staging_.encoded.size() < pack_bytes) staging_.encoded = Buffer(pack_bytes);
  for (int segment = route_.first_segment(); segment < route_.segments(); ++segment) {
    bytes_to_send_ += group_bytes(route_.sent_group(segment));
    bytes_to_receive_ += group_bytes(route_.received_group(segment));
  }
  sent_.segment = received_.segment = route_.first_segment();
  sent_.skip_empty(route_, true);
  received_.skip_empty(route_, false);
  if (!residuals_.empty())
    add_residuals(reinterpret_cast<float*>(values_.data()), residuals_.data(), residuals_.size());
}

LOCKSTEP_INLINE std::uint64_t RingFlow::rest_of_part_to_send() const {
  if (sent_.segment == route_.segments()) return 0;
  const int group = route_.sent_group(sent_.segment);
  if (route_.is_status(group, sent_.piece)) return status_.size_bytes() - out_bytes_;
  return (route_.elements(group, sent_.piece).count - sent_.done) * wire_bytes_ - out_bytes_;
}

LOCKSTEP_INLINE std::uint64_t RingFlow::rest_of_part_to_receive() const {
  if (received_.segment == route_.segments()) return 0;
  return (elements() - received_.done) * element_bytes() - in_bytes_;
}

LOCKSTEP_INLINE std::span<const std::byte> RingFlow::outgoing() {
  if (sent_.segment == route_.segments()) return {};
  const int group = route_.sent_group(sent_.segment);
  const std::size_t ready = ready_elements(group);
  if (route_.is_status(group, sent_.piece))
    return std::as_bytes(status_).subspan(out_bytes_, ready * sizeof(double) - out_bytes_);
  const Piece piece = route_.elements(group, sent_.piece);
  if (is_native()) return values_.subspan(piece.offset, ready).bytes().subspan(out_bytes_);
  if (out_bytes_ == encoded_bytes_) {
    const std::size_t count = std::min(pack_bytes_ / wire_bytes_, ready - sent_.done);
    const std::size_t first = piece.offset + sent_.done;
    const float* const source = reinterpret_cast<const float*>(values_.data()) + first;
    const bool is_rounded = sent_.segment + 1 >= route_.partition().ranks();  // a complete sum
    if (residuals_.empty() || is_rounded)
      encode(wire_, encoded(), source, count);
    else
      encode(wire_, encoded(), source, residuals_.data() + first, count);
    encoded_bytes_ = count * wire_bytes_;
    out_bytes_ = 0;
  }
  return {staging_.encoded.data() + out_bytes_, encoded_bytes_ - out_bytes_};
}

LOCKSTEP_INLINE void RingFlow::sent(std::size_t bytes) {
  const int group = route_.sent_group(sent_.segment);
  out_bytes_ += bytes;
  const bool is_status = route_.is_status(group, sent_.piece);
  const std::size_t elements =
      is_status ? status_.size() : route_.elements(group, sent_.piece).count;
  if (is_status || is_native()) {
    if (out_bytes_ < elements * (is_status ? sizeof(double) : wire_bytes_)) return;
  } else {
    if (out_bytes_ < encoded_bytes_) return;
    sent_.done += encoded_bytes_ / wire_bytes_;
    out_bytes_ = encoded_bytes_ = 0;
    if (sent_.done < elements) return;
  }
  out_bytes_ = 0;
  sent_.next_piece(route_, true);
}

LOCKSTEP_INLINE std::span<std::byte> RingFlow::incoming() {
  if (received_.segment == route_.segments()) return {};
  const std::size_t left = elements() - received_.done;
  if (is_direct())
    return target().bytes().subspan(received_.done * element_bytes() + in_bytes_,
                                    left * element_bytes() - in_bytes_);
  return {staging_.received.data() + in_bytes_,
          std::min(pack(), left) * element_bytes() - in_bytes_};
}

LOCKSTEP_INLINE void RingFlow::received(std::size_t bytes) {
  in_bytes_ += bytes;
  const std::size_t left = elements() - received_.done;
  const std::size_t count = is_direct() ? in_bytes_ / element_bytes() : std::min(pack(), left);
  if (count == 0 || in_bytes_ < count * element_bytes()) return;
  if (!is_direct()) take(count);
  in_bytes_ -= count * element_bytes();
  received_.done += count;
  if (received_.done == elements()) received_.next_piece(route_, false);
}

LOCKSTEP_INLINE std::uint64_t RingFlow::group_bytes(int group) const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t piece = 0; piece < route_.pieces(group); ++piece)
    bytes += route_.is_status(group, piece) ? status_.size_bytes()
                                            : route_.elements(group, piece).count * wire_bytes_;
  return bytes;
}

LOCKSTEP_INLINE std::size_t RingFlow::ready_elements(int group) const noexcept {
  const std::size_t all = route_.is_status(group, sent_.piece)
                              ? status_.size()
                              : route_.elements(group, sent_.piece).count;
  if (sent_.segment == route_.first_segment()) return all;
  const int source = sent_.segment - 1;
  if (received_.segment != source) return received_.segment > source ? all : sent_.done;
  return received_.piece > sent_.piece    ? all
         : received_.piece == sent_.piece ? received_.done
                                          : sent_.done;
}

LOCKSTEP_INLINE void RingFlow::take(std::size_t count) noexcept {
  const std::byte* const source = staging_.received.data();
  const NumberSpan whole = target();
  std::byte* const own = whole.subspan(received_.done, count).data();
  if (is_native() || is_status()) return combine({whole.type(), op_}, own, source, own, count);
  auto* const floats = reinterpret_cast<float*>(own);
  const auto* const halves = reinterpret_cast<const std::uint16_t*>(source);
  if (!route_.is_reduced(received_.segment)) return decode(wire_, floats, halves, count);
  decode_add(wire_, floats, halves, count);
  if (!route_.is_complete(received_.segment)) return;
  if (residuals_.empty()) return round_to_wire(wire_, floats, count);
  const std::size_t first = piece().offset + received_.done;
  round_to_wire(wire_, floats, residuals_.data() + first, count);
}

}}}  // namespace lockstep::detail
