// What Ring does, whatever its transport.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/ring/ring_flow.hpp"
#include "lockstep/collectives/transport_ref.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI::detail {

/// The operations of Ring, over a transport that each call names. See Collective.
class RingEngine {
 public:
  /// `together`: the largest number of consecutive ranks on one host (see choose_algorithm). The
  /// same on all ranks.
  explicit RingEngine(CommunicationOptions options, int together = 1);

  void all_reduce(const TransportRef& transport, NumberSpan values, ReduceOp op);
  void all_reduce(const TransportRef& transport, std::span<double> status, NumberSpan values);
  /// See ShardingCollective. The wire is that of gradients.
  void reduce_scatter_blocks(const TransportRef& transport, NumberSpan values);
  void all_gather_blocks(const TransportRef& transport, NumberSpan values);
  static void broadcast(const TransportRef& transport, std::span<std::byte> bytes, int root);
  static void all_gather(const TransportRef& transport, std::span<const std::byte> mine,
                         std::span<std::byte> all);
  /// In round k each rank hears from the one that stands 2^k before it, and thereby from 2^(k + 1)
  /// ranks (Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988).
  static void barrier(const TransportRef& transport);

  /// See ResidualCollective.
  [[nodiscard]] bool keeps_residuals() const noexcept { return options_.error_feedback; }
  void keep_residuals(std::span<const float> values, std::span<float> residuals);

 private:
  [[nodiscard]] std::size_t pack_bytes(NumberSpan values, Wire wire, int ranks) const noexcept;
  void reduce(const TransportRef& transport, std::span<double> status, NumberSpan values,
              ReduceOp op, Wire wire);
  [[nodiscard]] Wire wire_of(NumberSpan values) const noexcept {
    return values.type() == DataType::float32 ? options_.wire : Wire::native;
  }

  [[nodiscard]] std::span<float> residuals_of(NumberSpan values) const noexcept;

  struct Kept {
    std::span<const float> values;
    std::span<float> residuals;
  };

  CommunicationOptions options_;
  std::size_t together_;
  std::vector<Kept> kept_;
  RingStaging staging_;
  Buffer gathered_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/ring/ring_engine.ipp"
#endif
