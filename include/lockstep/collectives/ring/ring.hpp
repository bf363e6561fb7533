// The ring: collective operations over any transport.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring_engine.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A Collective over a Transport, and a CollectivePolicy if the transport has a static connect():
/// `Ring<Tcp>`.
///
/// all_reduce of a long array is a reduce-scatter followed by an all-gather (Patarasuk, Yuan,
/// "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009): each rank sends
/// and receives 2 (n - 1) / n of the array, whatever n. All of it is one stream of bytes from each
/// rank to the next, without steps to wait for (see detail::RingFlow). A short array is gathered
/// and summed on every rank (see detail::GatheredMessages); a very short one, where several ranks
/// share a host's link. Either way the sum of an element is
/// formed in the order of Partition, so that the choice does not show in the result;
/// `options.implementation` overrides it.
///
/// One thread calls it at a time, though not always the same; abort() may come from any thread.
template <class T>
  requires Transport<T>
class Ring {
 public:
  /// Over a connected transport. The options must be equal on all ranks, and so must `together`:
  /// how many ranks that follow each other send to each other without using their host's link.
  explicit Ring(T transport, CommunicationOptions options = {}, int together = 1)
      : transport_(std::move(transport)), engine_(std::move(options), together) {}

  /// Connects to all peers, as CollectivePolicy demands. Options that must be equal on all ranks
  /// are compared.
  [[nodiscard]] static Ring connect(Rendezvous rendezvous, const CommunicationOptions& options)
    requires requires { T(T::connect(rendezvous, options)); }
  {
    options.validate();
    add_properties(rendezvous, options, "Ring");
    return Ring(T::connect(rendezvous, options), options);
  }

  [[nodiscard]] int rank() const noexcept { return transport_.rank(); }
  [[nodiscard]] int size() const noexcept { return transport_.size(); }

  void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) {
    engine_.all_reduce(transport_, values, op);
  }
  /// `options.wire` is about these values, if they are float.
  void all_reduce(std::span<double> status, NumberSpan values) {
    engine_.all_reduce(transport_, status, values);
  }
  /// See ShardingCollective. `options.wire` is about the values that are summed, as above.
  void reduce_scatter_blocks(NumberSpan values) {
    engine_.reduce_scatter_blocks(transport_, values);
  }
  void all_gather_blocks(NumberSpan values) { engine_.all_gather_blocks(transport_, values); }

  void broadcast(std::span<std::byte> bytes, int root) {
    engine_.broadcast(transport_, bytes, root);
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    engine_.all_gather(transport_, mine, all);
  }
  void barrier() { engine_.barrier(transport_); }

  /// See ResidualCollective.
  [[nodiscard]] bool keeps_residuals() const noexcept { return engine_.keeps_residuals(); }
  void keep_residuals(std::span<const float> values, std::span<float> residuals) {
    engine_.keep_residuals(values, residuals);
  }

  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept {
    detail::abort(transport_, reason, code);
  }
  /// See ReportingCollective.
  [[nodiscard]] ActivityBoard& activity() noexcept
    requires ReportingCollective<T>
  {
    return transport_.activity();
  }
  /// See ClosingCollective.
  void close() {
    if constexpr (ClosingCollective<T>) transport_.close();
  }

  [[nodiscard]] T& transport() noexcept { return transport_; }

 private:
  T transport_;
  detail::RingEngine engine_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
