// The ring: collective operations over any transport.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lockstep/collectives/argument_checks.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/combine.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/forward_flow.hpp"
#include "lockstep/collectives/ring/gather.hpp"
#include "lockstep/collectives/ring/ring_flow.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A Collective over a Transport, and a CollectivePolicy if the transport has a static connect(): `Ring<Tcp>`.
///
/// all_reduce of a long array is a reduce-scatter followed by an all-gather (Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms
/// for clusters of workstations", 2009): each rank sends and receives 2 (n - 1) / n of the array, whatever n. All of it is one stream
/// of bytes from each rank to the next, without steps to wait for (see detail::RingFlow). A short array is gathered and summed on
/// every rank (see detail::GatheredMessages). Either way the sum of an element is formed in the order of Partition, so that the choice
/// does not show in the result; `options.implementation` overrides it.
///
/// A transport may have `begin(Operation)`, to learn what the messages belong to, and `close()`.
///
/// One thread calls it at a time, though not always the same; abort() may come from any thread.
template <class T>
  requires Transport<T>
class Ring {
 public:
  /// Over a connected transport. The options must be equal on all ranks.
  explicit Ring(T transport, CommunicationOptions options = {})
      : transport_(std::move(transport)), options_(std::move(options)) {
    options_.validate();
  }

  /// Connects to all peers, as CollectivePolicy demands. Options that must be equal on all ranks are compared.
  [[nodiscard]] static Ring connect(Rendezvous rendezvous, const CommunicationOptions& options)
    requires requires { T(T::connect(rendezvous, options)); }
  {
    options.validate();
    add_properties(rendezvous, options, "Ring");
    return Ring(T::connect(rendezvous, options), options);
  }

  [[nodiscard]] int rank() const noexcept { return transport_.rank(); }
  [[nodiscard]] int size() const noexcept { return transport_.size(); }

  template <Reducible E>
  void all_reduce(std::span<E> values, ReduceOp op = ReduceOp::sum) {
    if (op == ReduceOp::max)
      reduce<ReduceOp::max, E>({}, values);
    else
      reduce<ReduceOp::sum, E>({}, values);
  }

  /// `options.wire` is about these values, if they are float.
  template <Reducible E>
  void all_reduce(std::span<double> status, std::span<E> values) {
    if constexpr (std::is_same_v<E, float>) {
      if (options_.wire == Wire::bfloat16) return reduce<ReduceOp::sum, E, Wire::bfloat16>(status, values);
      if (options_.wire == Wire::float16) return reduce<ReduceOp::sum, E, Wire::float16>(status, values);
    }
    reduce<ReduceOp::sum, E>(status, values);
  }

  void broadcast(std::span<std::byte> bytes, int root) {
    detail::check_root(root, size());
    if (size() == 1) return;
    begin(Operation::broadcast);
    auto flow = detail::ForwardFlow::broadcast(bytes, rank(), root, size());
    transport_.transfer(next(), previous(), flow);
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    detail::check_lengths(mine.size(), all.size(), size());
    if (!mine.empty())
      std::memmove(all.data() + mine.size() * static_cast<std::size_t>(rank()), mine.data(), mine.size());
    if (size() == 1) return;
    begin(Operation::all_gather);
    auto flow = detail::ForwardFlow::all_gather(all, rank(), size());
    transport_.transfer(next(), previous(), flow);
  }

  /// In round k each rank hears from the one that stands 2^k before it, and thereby from 2^(k + 1) ranks (Hensgen, Finkel,
  /// Manber, "Two algorithms for barrier synchronization", 1988).
  void barrier() {
    begin(Operation::barrier);
    const std::byte token{1};
    for (int distance = 1; distance < size(); distance *= 2) {
      std::byte heard{};
      SpanFlow flow({&token, 1}, {&heard, 1});
      transport_.transfer(wrap_rank(rank() + distance, size()), wrap_rank(rank() - distance, size()), flow);
    }
  }

  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept {
    detail::abort(transport_, reason, code);
  }

  /// See Collective.
  [[nodiscard]] ActivityBoard& activity() noexcept
    requires requires(T& transport) { transport.activity(); }
  {
    return transport_.activity();
  }

  void close() {
    if constexpr (requires { transport_.close(); }) transport_.close();
  }

  [[nodiscard]] T& transport() noexcept { return transport_; }

 private:
  // Measured on two to eight processes of one machine: see benchmarks/all_reduce.cpp.
  static constexpr std::size_t pack_bytes = std::size_t{256} << 10;
  static constexpr std::size_t gathered_bytes = std::size_t{512} << 10;  // of all ranks

  [[nodiscard]] int next() const noexcept { return wrap_rank(rank() + 1, size()); }
  [[nodiscard]] int previous() const noexcept { return wrap_rank(rank() - 1, size()); }

  void begin(Operation operation) {
    if constexpr (requires { transport_.begin(operation); }) transport_.begin(operation);
  }

  [[nodiscard]] bool gathers(std::size_t bytes) const noexcept {
    if (options_.implementation != CommunicationImplementation::automatic)
      return options_.implementation == CommunicationImplementation::gather;
    return bytes * static_cast<std::size_t>(size()) <= gathered_bytes;
  }

  [[nodiscard]] std::size_t pack() const noexcept {
    if (options_.bytes_per_pack == 0) return pack_bytes;
    constexpr std::int64_t longest = block_elements * sizeof(double);  // packs end with their block
    return (static_cast<std::size_t>(std::min(options_.bytes_per_pack, longest)) + 63) / 64 * 64;
  }

  template <ReduceOp op, Reducible E, Wire wire = Wire::native>
  void reduce(std::span<double> status, std::span<E> values) {
    if (size() == 1) return;
    begin(Operation::all_reduce);
    if (gathers(status.size_bytes() + values.size_bytes()))
      return detail::reduce_gathered<op>(transport_, gathered_, status, values);
    detail::RingFlow<op, E, wire> flow(staging_, pack(), rank(), size(), status, values);
    transport_.transfer(next(), previous(), flow);
  }

  T transport_;
  CommunicationOptions options_;
  detail::RingStaging staging_;
  Buffer gathered_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
