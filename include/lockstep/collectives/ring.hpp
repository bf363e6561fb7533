// The ring: collective operations over any transport.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/collectives/arguments.hpp"
#include "lockstep/collectives/combine.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/partition.hpp"
#include "lockstep/collectives/rendezvous.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// A Collective over a Transport, and a CollectivePolicy if the transport has a static connect(): `Ring<Tcp>`.
///
/// all_reduce is a reduce-scatter followed by an all-gather (Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for
/// clusters of workstations", 2009): each rank sends and receives 2 (n - 1) / n of the array, whatever n. Ranks stand in a
/// circle, and each only sends to the next and receives from the previous one. The array is cut into blocks and the
/// blocks into groups (see Partition). In step t of the first phase, rank r sends on the partial sums of group r - t and
/// adds its own values to those of group r - t - 1 which it receives; after n - 1 steps it holds the whole sum of group
/// r + 1. In the second phase the sums travel once around. Block by block, sending and receiving go on at once.
///
/// The sum of group g thus starts at rank g and goes on in the order of ranks, as the numerics contract demands.
///
/// A transport may have `begin(Operation)`, to learn what the messages belong to, and `close()`.
template <class T>
  requires Transport<T>
class Ring {
 public:
  /// Over a connected transport.
  explicit Ring(T transport) : transport_(std::move(transport)) {}

  /// Connects to all peers, as CollectivePolicy demands.
  [[nodiscard]] static Ring connect(const Rendezvous& rendezvous, const CommunicationOptions& options)
    requires requires { T(T::connect(rendezvous, options)); }
  {
    return Ring(T::connect(rendezvous, options));
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

  template <Reducible E>
  void all_reduce(std::span<double> status, std::span<E> values) {
    reduce<ReduceOp::sum, E>(status, values);
  }

  /// The bytes travel from rank to rank, piece by piece, so that all ranks send at once.
  void broadcast(std::span<std::byte> bytes, int root) {
    detail::check_root(root, size());
    if (size() == 1) return;
    begin(Operation::broadcast);
    const int distance = wrap_rank(rank() - root, size());
    const bool receives = distance != 0;
    const bool sends = distance != size() - 1;
    const std::size_t pieces = (bytes.size() + piece_bytes - 1) / piece_bytes;
    const auto piece = [&](std::size_t i) {
      return bytes.subspan(i * piece_bytes, std::min(piece_bytes, bytes.size() - i * piece_bytes));
    };
    for (std::size_t i = 0; i <= pieces; ++i) {
      const std::span<std::byte> in = receives && i < pieces ? piece(i) : std::span<std::byte>{};
      // The root has its bytes already, the others send what they received in the round before.
      const std::size_t sent = receives ? i - 1 : i;
      const std::span<std::byte> out = sends && sent < pieces ? piece(sent) : std::span<std::byte>{};
      transport_.exchange(next(), out, previous(), in);
    }
  }

  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
    detail::check_lengths(mine.size(), all.size(), size());
    begin(Operation::all_gather);
    const auto slice = [&](int r) {
      return all.subspan(mine.size() * static_cast<std::size_t>(wrap_rank(r, size())), mine.size());
    };
    if (!mine.empty()) std::memmove(slice(rank()).data(), mine.data(), mine.size());
    for (int t = 0; t + 1 < size(); ++t)
      transport_.exchange(next(), slice(rank() - t), previous(), slice(rank() - t - 1));
  }

  /// In round k each rank hears from the one that stands 2^k before it, and thereby from 2^(k + 1) ranks (Hensgen, Finkel,
  /// Manber, "Two algorithms for barrier synchronization", 1988).
  void barrier() {
    begin(Operation::barrier);
    const std::byte token{1};
    for (int distance = 1; distance < size(); distance *= 2) {
      std::byte heard{};
      transport_.exchange(wrap_rank(rank() + distance, size()), {&token, 1}, wrap_rank(rank() - distance, size()),
                          {&heard, 1});
    }
  }

  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept {
    detail::abort(transport_, reason, code);
  }

  void close() {
    if constexpr (requires { transport_.close(); }) transport_.close();
  }

  [[nodiscard]] T& transport() noexcept { return transport_; }

 private:
  static constexpr std::size_t piece_bytes = std::size_t{256} << 10;

  [[nodiscard]] int next() const noexcept { return wrap_rank(rank() + 1, size()); }
  [[nodiscard]] int previous() const noexcept { return wrap_rank(rank() - 1, size()); }

  void begin(Operation operation) {
    if constexpr (requires { transport_.begin(operation); }) transport_.begin(operation);
  }

  // The status is the first piece of group 0: it has arrived everywhere before most of the values have.
  template <ReduceOp op, Reducible E>
  void reduce(std::span<double> status, std::span<E> values) {
    if (size() == 1) return;
    begin(Operation::all_reduce);
    const int n = size();
    const Partition partition(values.size(), n);
    const std::size_t largest = std::max(status.size_bytes(), std::min(values.size(), block_elements) * sizeof(E));
    if (received_.size() < largest) received_ = Buffer(largest);

    const auto pieces = [&](int g) { return partition.group_size(g) + (g == 0 && !status.empty() ? 1 : 0); };
    const auto piece = [&](int g, std::size_t k) -> std::span<std::byte> {
      if (g == 0 && !status.empty()) {
        if (k == 0) return std::as_writable_bytes(status);
        --k;
      }
      const Piece block = partition.group_block(g, k);
      return std::as_writable_bytes(values.subspan(block.offset, block.count));
    };
    const auto is_status = [&](int g, std::size_t k) { return g == 0 && k == 0 && !status.empty(); };

    for (int t = 0; t + 1 < n; ++t) {
      const int sent = wrap_rank(rank() - t, n);
      const int summed = wrap_rank(rank() - t - 1, n);
      for (std::size_t k = 0; k < std::max(pieces(sent), pieces(summed)); ++k) {
        const auto out = k < pieces(sent) ? piece(sent, k) : std::span<std::byte>{};
        const auto own = k < pieces(summed) ? piece(summed, k) : std::span<std::byte>{};
        transport_.exchange(next(), out, previous(), {received_.data(), own.size()});
        if (is_status(summed, k))
          add<op, double>(own);
        else
          add<op, E>(own);
      }
    }
    for (int t = 0; t + 1 < n; ++t) {
      const int sent = wrap_rank(rank() + 1 - t, n);
      const int filled = wrap_rank(rank() - t, n);
      for (std::size_t k = 0; k < std::max(pieces(sent), pieces(filled)); ++k)
        transport_.exchange(next(), k < pieces(sent) ? piece(sent, k) : std::span<std::byte>{}, previous(),
                            k < pieces(filled) ? piece(filled, k) : std::span<std::byte>{});
    }
  }

  template <ReduceOp op, Reducible E>
  void add(std::span<std::byte> own) noexcept {
    E* values = reinterpret_cast<E*>(own.data());
    detail::combine<op>(values, reinterpret_cast<const E*>(received_.data()), static_cast<const E*>(values),
                        own.size() / sizeof(E));
  }

  T transport_;
  Buffer received_;
};

}  // namespace lockstep::inline LOCKSTEP_ABI
