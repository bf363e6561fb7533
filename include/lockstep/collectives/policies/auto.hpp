// The collective between workers that fits where they are.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/collectives/policies/shared_memory.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring.hpp"
#include "lockstep/collectives/tcp/tcp.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A CollectivePolicy: SharedMemory when all ranks are on one machine and can share memory, else
/// Ring<Tcp>, in which the bytes between ranks that are neighbours on one host go through memory
/// that they share, if they can. Both give the same bits, unless `options.wire` rounds what
/// Ring<Tcp> moves.
///
/// One thread calls it at a time, though not always the same; abort() may come from any thread.
class Auto {
 public:
  [[nodiscard]] static Auto connect(Rendezvous rendezvous, const CommunicationOptions& options);

  [[nodiscard]] bool uses_shared_memory() const noexcept;

  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] Buffer allocate(std::size_t bytes);

  void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum);
  void all_reduce(std::span<double> status, NumberSpan values);
  void broadcast(std::span<std::byte> bytes, int root);
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);
  void barrier();

  /// See SharingCollective.
  [[nodiscard]] bool shares_memory() const noexcept { return uses_shared_memory(); }
  void reduce_scatter_all_gather(std::span<double> status, NumberSpan values, UseSums f);

  /// See ResidualCollective. In shared memory nothing is rounded.
  [[nodiscard]] bool keeps_residuals() const noexcept;
  void keep_residuals(std::span<const float> values, std::span<float> residuals);

  /// See ShardingCollective.
  void reduce_scatter_blocks(NumberSpan values);
  void all_gather_blocks(NumberSpan values);

  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept;
  [[nodiscard]] ActivityBoard& activity() noexcept;
  void close();

 private:
  template <class C>
  explicit Auto(C collective) : collective_(std::move(collective)) {}

  std::variant<SharedMemory, Ring<Tcp>> collective_;
};

LOCKSTEP_EXTERN(class HierarchicalGroup<Auto>);
LOCKSTEP_EXTERN(class Hierarchical<Auto>);
LOCKSTEP_EXTERN(class HierarchicalGroup<SharedMemory>);
LOCKSTEP_EXTERN(class Hierarchical<SharedMemory>);
LOCKSTEP_EXTERN(class HierarchicalGroup<Ring<Tcp>>);
LOCKSTEP_EXTERN(class Hierarchical<Ring<Tcp>>);

}  // namespace lockstep::inline LOCKSTEP_ABI

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/policies/auto.ipp"
#endif
