// The Transport and Collective concepts, and what a collective may offer besides.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/collectives/data_type.hpp"
#include "lockstep/collectives/flow.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// Messages between ranks, in order, without loss: what the algorithms are written over. An
/// algorithm knows no sockets, a transport no arithmetic.
///
/// For a transport T (all calls block, each with a progress-based deadline, and throw
/// CollectiveError naming the peer):
///  1. `rank()` in [0, size()), `size()` at least 1.
///  2. `transfer(to, from, flow)` moves a Flow: it sends the flow's outgoing stream to rank `to`
///     and receives its incoming one from rank `from`, both at once, so that a ring of ranks that
///     all transfer never locks up. Either stream may be empty; to and from may be equal. Both
///     sides know how long a stream is. Some pairs may have no link (Tcp: protocol/partners.hpp).
///  3. `abort(reason)` makes every other rank's pending and later calls fail with that reason, and
///     a call of this rank that another thread is in. Any thread may call it. Never throws.
/// Optional:
///  4. `abort(reason, code)`: the same, with the exit code that the others end with.
///  5. `begin(operation)`: names the operation that the messages which follow belong to.
///  6. `activity()` and `close()`, as in ReportingCollective and ClosingCollective.
///
/// All calls but abort() come from one thread at a time, though not always the same.
template <class T>
concept Transport = requires(T& transport, const T& same, Flow& flow, std::string_view reason) {
  { same.rank() } -> std::same_as<int>;
  { same.size() } -> std::same_as<int>;
  transport.transfer(0, 0, flow);
  { transport.abort(reason) } noexcept;
};

/// Operations in which every rank takes part, in the same order, with the same lengths (MPI's and
/// NCCL's terms).
///
/// For a collective C (every call throws CollectiveError when a peer is lost; buffers are then
/// undefined):
///  1. `rank()` and `size()`, as in Transport.
///  2. `all_reduce(values, op)`, in place, for spans of float, double and std::int64_t, of any
///     length: every rank holds the same bits afterwards. The order of summation follows the
///     numerics contract (see Partition).
///  3. `all_reduce(status, values)` sums both, as one operation on the wire; status is a span of
///     double, values of float or double. This is the step's reduction: status block and gradients.
///  4. `broadcast(bytes, root)`: root's bytes go to all.
///  5. `all_gather(mine, all)`: `all` receives every rank's bytes, by rank; all.size() is
///     mine.size() * size(). mine may stand in its place in all.
///  6. `barrier()` returns when every rank has called it.
///  7. `abort(reason)`: as in Transport; `abort(reason, code)` is optional.
/// One function that takes a NumberSpan does for all types; so do the library's collectives,
/// and so can code that is compiled once. Optional operations are the concepts below.
///
/// All calls but abort() come from one thread at a time, though not always the same.
template <class C>
concept Collective =
    requires(C& collective, const C& same, std::span<float> floats, std::span<double> doubles,
             std::span<std::int64_t> integers, std::span<std::byte> bytes,
             std::span<const std::byte> mine, std::string_view reason) {
      { same.rank() } -> std::same_as<int>;
      { same.size() } -> std::same_as<int>;
      collective.all_reduce(floats, ReduceOp::sum);
      collective.all_reduce(doubles, ReduceOp::max);
      collective.all_reduce(integers, ReduceOp::sum);
      collective.all_reduce(doubles, floats);
      collective.all_reduce(doubles, doubles);
      collective.broadcast(bytes, 0);
      collective.all_gather(mine, bytes);
      collective.barrier();
      { collective.abort(reason) } noexcept;
    };

/// `close()`: the orderly end. Returns when all peers have come to their end too, rank 0 last, or
/// after a bounded wait. Of a Collective or a Transport; without it, the destructor is all.
template <class C>
concept ClosingCollective = requires(C& collective) { collective.close(); };

/// `activity()`: an ActivityBoard on which this rank says what it is doing, for the messages of the
/// others. All replicas of a process have one board. Of a Collective or a Transport.
template <class C>
concept ReportingCollective = requires(C& collective) {
  { collective.activity() } -> std::same_as<ActivityBoard&>;
};

/// `allocate(size)`: a Buffer for the gradients that the collective can use without a copy.
template <class C>
concept AllocatingCollective = Collective<C> && requires(C& collective) {
  { collective.allocate(std::size_t{}) } -> std::same_as<Buffer>;
};

namespace detail {
struct AnyFunction {
  void operator()(auto&&...) const {}
};
}  // namespace detail

/// What reduce_scatter calls: f(status sums, offset in elements, sums of values). A function that
/// takes a std::span<const float> in the third place will do for float.
using TakeSums = FunctionRef<void(std::span<const double>, std::size_t, ConstNumberSpan)>;
/// What reduce_scatter_all_gather calls: f(status sums, offset in elements, sums of values,
/// results).
using UseSums =
    FunctionRef<void(std::span<const double>, std::size_t, ConstNumberSpan, NumberSpan)>;

/// `reduce_scatter(status, values, f)`, where the ranks share memory, and hence may share the
/// parameters. Sums as all_reduce(status, values) does, but leaves `values` as they are and hands
/// each rank a share of the sums: it calls f(status sums, offset, sums of values) for pieces that
/// together cover the share. Returns when all ranks have come back from their calls of f, with the
/// sums in `status`. If f throws, so does this, after that.
template <class C>
concept ScatteringCollective =
    Collective<C> && requires(C& collective, std::span<double> status, std::span<float> values) {
      collective.reduce_scatter(status, values, detail::AnyFunction{});
      collective.reduce_scatter(status, status, detail::AnyFunction{});
    };

/// A reduce_scatter that begins while a rank still computes its values:
/// `begin_reduce_scatter(status, values)`, then `advance_reduce_scatter(count, f)` as often as the
/// rank likes, which says that its first `count` values are there. That does not wait: it calls
/// f for what all ranks have so far, with the sums of that first status. reduce_scatter then calls
/// f for the rest, and ends it. All ranks call begin with equal lengths; advance throws what f
/// throws. Values that are ready must not change until all ranks are through, or have failed.
template <class C>
concept EarlyScatteringCollective =
    ScatteringCollective<C> &&
    requires(C& collective, std::span<const double> status, std::span<const float> values) {
      collective.begin_reduce_scatter(status, values);
      collective.begin_reduce_scatter(status, status);
      collective.advance_reduce_scatter(std::size_t{}, detail::AnyFunction{});
    };

/// `all_reduce_async(values)` begins to sum them as all_reduce({}, values) does, and returns; they
/// are not to be touched until `wait()` has returned, which throws what has failed. Operations are
/// carried out in the order of the calls, whether they block or not. `overlap()`: what the options
/// say of it.
template <class C>
concept OverlappingCollective =
    Collective<C> &&
    requires(C& collective, const C& same, std::span<float> values, std::span<double> doubles) {
      collective.all_reduce_async(values);
      collective.all_reduce_async(doubles);
      collective.wait();
      same.overlap();
    };

/// `keeps_residuals()`, the same on all ranks: whether CommunicationOptions::error_feedback is on.
/// Then, after `keep_residuals(values, residuals)`, all_reduce(status, part) for any part of
/// `values` adds to each what the residual in its place holds, and leaves there what this rank
/// rounds off. So for all_reduce_async(part). Until it is called again for these values, with no
/// residuals.
template <class C>
concept ResidualCollective =
    Collective<C> && requires(C& collective, const C& same, std::span<const float> values,
                              std::span<float> residuals) {
      { same.keeps_residuals() } -> std::same_as<bool>;
      collective.keep_residuals(values, residuals);
    };

/// `shares_memory()`, the same on all ranks. Where it is true, ranks that have parameters of their
/// own reach each other's `values`, and there is `reduce_scatter_all_gather(status, values, f)`:
/// sums as all_reduce(status, values) does, but gives all ranks what f makes of the sums. It calls
/// f(status sums, offset, sums of values, results) for pieces of a share (of all values where these
/// are few), and f writes as many results. f must make the same of a piece on any rank. If f
/// throws, so does this, and the other ranks wait until abort tells them.
template <class C>
concept SharingCollective =
    Collective<C> &&
    requires(C& collective, const C& same, std::span<double> status, std::span<float> values) {
      { same.shares_memory() } -> std::same_as<bool>;
      collective.reduce_scatter_all_gather(status, values, detail::AnyFunction{});
      collective.reduce_scatter_all_gather(status, status, detail::AnyFunction{});
    };

/// The two halves of an all_reduce. Between them, each rank may do with its part of the sums what
/// all ranks need (an update of parameters). A rank owns those of an array's blocks, as Partition
/// cuts it over the ranks, whose last_rank it is.
///  1. `reduce_scatter_blocks(values)` sums as all_reduce({}, values) does, but leaves each rank
///     the sums of its blocks alone; what is in the others then is undefined.
///  2. `all_gather_blocks(values)`: all ranks get every rank's blocks.
/// Each moves half of what all_reduce does. A two-level collective has the blocks of processes: the
/// threads of a process all get the sums of its blocks; of what is gathered, the first thread's
/// array counts, which they share, and the others' may be empty.
template <class C>
concept ShardingCollective =
    Collective<C> && requires(C& collective, std::span<float> values, std::span<double> doubles) {
      collective.reduce_scatter_blocks(values);
      collective.reduce_scatter_blocks(doubles);
      collective.all_gather_blocks(values);
      collective.all_gather_blocks(doubles);
    };

/// `reduce_scatter_blocks_async(values)` begins such a sum, as all_reduce_async does.
template <class C>
concept EarlyShardingCollective =
    ShardingCollective<C> && OverlappingCollective<C> &&
    requires(C& collective, std::span<float> values, std::span<double> doubles) {
      collective.reduce_scatter_blocks_async(values);
      collective.reduce_scatter_blocks_async(doubles);
    };

}}  // namespace lockstep
