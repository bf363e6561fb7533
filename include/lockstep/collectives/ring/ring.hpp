// The ring: collective operations over any transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/any_collective.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/collectives/ring/ring_flow.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

/// Each of them forms the sums of Partition.
enum class Algorithm : std::uint8_t {
  gather,  ///< every rank fetches all arrays and sums them itself (reduce_gathered)
  ring,    ///< a reduce-scatter and an all-gather round the ring (RingFlow)
};

/// Whether an array is long for `ranks` ranks, wherever they are (that must not show in the sums):
/// then the ring takes less time.
[[nodiscard]] constexpr bool is_long(std::size_t bytes, int ranks) noexcept {
  constexpr std::size_t gathered_bytes = std::size_t{512} << 10;  // of all ranks
  return bytes * static_cast<std::size_t>(ranks) > gathered_bytes;
}

/// Whether a wire of half precision rounds such an array.
[[nodiscard]] constexpr bool rounds(CommunicationImplementation wanted, std::size_t bytes,
                                    int ranks) noexcept {
  return wanted == CommunicationImplementation::ring || is_long(bytes, ranks);
}

/// For `bytes` of each of `ranks` ranks, of which at most `together` consecutive ones are on one
/// host: they exchange data without using its link. The figures are measured on two to eight
/// processes of one machine (benchmarks/all_reduce.cpp); benchmarks/step_model.awk models several
/// ranks on a host.
[[nodiscard]] constexpr Algorithm choose_algorithm(CommunicationImplementation wanted,
                                                   std::size_t bytes, int ranks,
                                                   std::size_t together) noexcept {
  if (wanted == CommunicationImplementation::ring) return Algorithm::ring;
  if (wanted == CommunicationImplementation::gather) return Algorithm::gather;
  // Each of the ranks on a host fetches what all ranks of the others have, so that their link
  // carries the square of their number; in the ring, it carries what one rank on each host would.
  constexpr std::size_t on_link = std::size_t{32} << 10;
  const bool fits_link = together == 1 || bytes * together * together <= on_link;
  return !is_long(bytes, ranks) && fits_link ? Algorithm::gather : Algorithm::ring;
}

/// Transport::transfer of one transport.
using RingTransfer = FunctionRef<void(int to, int from, Flow& flow)>;

/// The messages of all ranks, of equal length, in one buffer: slot j holds that of rank +
/// j (modulo the ranks). In round k each rank sends its first 2^k slots to the rank that stands 2^k
/// before it, and receives as many from behind, so that ceil(log2 n) rounds do for any number of
/// ranks; two ranks just swap (Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for
/// all-to-all communications in multiport message-passing systems", 1997).
class GatheredMessages {
 public:
  GatheredMessages(Buffer& memory, std::size_t bytes, int rank, int ranks);

  /// The message of one rank. Aligned to cache lines.
  [[nodiscard]] std::span<std::byte> of(int rank) const noexcept {
    return {memory_.data() + static_cast<std::size_t>(wrap_rank(rank - rank_, ranks_)) * stride(),
            bytes_};
  }

  /// With this rank's message in its place, fetches those of the others.
  void exchange(RingTransfer transfer);

 private:
  [[nodiscard]] std::size_t stride() const noexcept { return (bytes_ + 63) / 64 * 64; }

  Buffer& memory_;
  std::size_t bytes_;
  int rank_;
  int ranks_;
};

/// All-reduce of a status and an array by one gathering.
void reduce_gathered(RingTransfer transfer, int rank, int ranks, Buffer& memory,
                     std::span<double> status, NumberSpan values, ReduceOp op = ReduceOp::sum);

/// Ring, whatever its transport: the operations, compiled once.
class RingEngine : public AnyCollective {
 public:
  LOCKSTEP_INLINE_VIRTUAL void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum) override;
  /// `options.wire` is about these values, if they are float.
  LOCKSTEP_INLINE_VIRTUAL void all_reduce(std::span<double> status, NumberSpan values) override;
  /// `options.wire` is about the values that are summed, as above.
  LOCKSTEP_INLINE_VIRTUAL void reduce_scatter_blocks(NumberSpan values) override;
  LOCKSTEP_INLINE_VIRTUAL void all_gather_blocks(NumberSpan values) override;
  LOCKSTEP_INLINE_VIRTUAL void broadcast(std::span<std::byte> bytes, int root) override;
  LOCKSTEP_INLINE_VIRTUAL void all_gather(std::span<const std::byte> mine,
                                          std::span<std::byte> all) override;
  /// In round k each rank hears from the one that stands 2^k before it, and thereby from 2^(k + 1)
  /// ranks (Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988).
  LOCKSTEP_INLINE_VIRTUAL void barrier() override;
  LOCKSTEP_INLINE_VIRTUAL void keep_residuals(std::span<const float> values,
                                              std::span<float> residuals) override;

 protected:
  RingEngine(int rank, int size, CommunicationOptions options, int together);

 private:
  // The transport's.
  virtual void begin(Operation operation) = 0;
  virtual void transfer(int to, int from, Flow& flow) = 0;

  [[nodiscard]] int next() const noexcept { return wrap_rank(rank() + 1, size()); }
  [[nodiscard]] int previous() const noexcept { return wrap_rank(rank() - 1, size()); }
  [[nodiscard]] std::size_t pack_bytes(NumberSpan values, Wire wire) const noexcept;
  void reduce(std::span<double> status, NumberSpan values, ReduceOp op, Wire wire);
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

}  // namespace detail

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
class Ring : public detail::RingEngine {
 public:
  /// Over a connected transport. The options must be equal on all ranks, and so must `together`:
  /// the largest number of consecutive ranks on one host (see detail::choose_algorithm).
  explicit Ring(T transport, CommunicationOptions options = {}, int together = 1)
      : RingEngine(transport.rank(), transport.size(), std::move(options), together),
        transport_(std::move(transport)) {}

  /// Connects to all peers, as CollectivePolicy demands. Options that must be equal on all ranks
  /// are compared.
  [[nodiscard]] static Ring connect(Rendezvous rendezvous, const CommunicationOptions& options)
    requires requires { T(T::connect(rendezvous, options)); }
  {
    options.validate();
    add_properties(rendezvous, options, "Ring");
    return Ring(T::connect(rendezvous, options), options);
  }

  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept override {
    detail::abort(transport_, reason, code);
  }
  [[nodiscard]] ActivityBoard* board() override {
    if constexpr (ReportingCollective<T>) return &transport_.activity();
    return nullptr;
  }
  void close() override {
    if constexpr (ClosingCollective<T>) transport_.close();
  }

  [[nodiscard]] T& transport() noexcept { return transport_; }

 private:
  void begin([[maybe_unused]] Operation operation) override {
    if constexpr (requires { transport_.begin(operation); }) transport_.begin(operation);
  }
  void transfer(int to, int from, Flow& flow) override { transport_.transfer(to, from, flow); }

  T transport_;
};

}}  // namespace lockstep

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/collectives/ring/ring.ipp"
#endif
