// The Collective and Transport concepts.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/collectives/flow.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

/// How all_reduce combines elements.
enum class ReduceOp { sum, max };

/// Messages between ranks, in order, without loss: what the algorithms are written over. An algorithm knows no sockets, a
/// transport no arithmetic.
///
/// For a transport T (all calls block, each with a progress-based deadline, and throw CollectiveError naming the peer):
///  1. `rank()` in [0, size()), `size()` at least 1.
///  2. `transfer(to, from, flow)` moves a Flow: it sends the flow's outgoing stream to rank `to` and receives its incoming one from
///     rank `from`, both at once, so that a ring of ranks that all transfer never locks up. Either stream may be empty; to
///     and from may be equal. Both sides know how long a stream is.
///  3. `abort(reason)`: makes every other rank's pending and later calls fail with that reason, and a call of this rank that
///     another thread is in. Any thread may call it. Never throws.
/// Optional:
///  4. `abort(reason, code)`: the same, with the exit code that the others shall end with.
///  5. `begin(operation)`: tells what the messages that follow belong to. `close()`: the orderly end.
///
/// All calls but abort() come from one thread at a time, though not always the same.
template <class T>
concept Transport = requires(T& transport, const T& same, Flow& flow, std::string_view reason) {
  { same.rank() } -> std::same_as<int>;
  { same.size() } -> std::same_as<int>;
  transport.transfer(0, 0, flow);
  { transport.abort(reason) } noexcept;
};

/// Operations in which every rank takes part, in the same order, with the same lengths (MPI's and NCCL's terms).
///
/// For a collective C (every call throws CollectiveError when a peer is lost; buffers are then undefined):
///  1. `rank()` and `size()`, as in Transport.
///  2. `all_reduce(values, op)`, in place, for spans of float, double and std::int64_t, of any length: every rank holds
///     the same bits afterwards. Summation order follows the numerics contract (see ring.hpp).
///  3. `all_reduce(status, values)`: sums both, as one operation on the wire; status is a span of double, values of
///     float or double. This is the step's reduction: status block and gradients.
///  4. `broadcast(bytes, root)`: root's bytes go to all.
///  5. `all_gather(mine, all)`: `all` receives every rank's bytes, by rank; all.size() == mine.size() * size(). mine may
///     stand in its place in all.
///  6. `barrier()`: returns when every rank has called it.
///  7. `abort(reason)`: as in Transport.
/// Optional: `abort(reason, code)` and `close()`, as in Transport, and
///  8. `allocate(size)`: a Buffer for the gradients that the collective can use without a copy.
///  9. `reduce_scatter(status, values, f)`: where the ranks share memory, and hence may share the parameters. Sums as
///     all_reduce(status, values) does, but leaves `values` as they are and hands each rank a share of the sums: it calls
///     f(status sums, offset, values sums) for pieces that together cover the share. Returns when all ranks have come back
///     from their calls of f, with the sums in `status`. When f throws, so does this, after that.
///     With `begin_reduce_scatter(status, values)` a rank may begin it while its values are still computed, and say with
///     `advance_reduce_scatter<T>(count, f)` that the first `count` are there, on all ranks with equal arguments (but the
///     numbers). That waits for nobody: it calls f for what all ranks have so far, with the sums of that first status.
///     reduce_scatter then calls f for the rest, and ends it. What f throws, advance throws. The values that are ready must not
///     change until all ranks are through, or have failed.
/// 10. `all_reduce_async(values)`: begins to sum them as all_reduce({}, values) does, and returns; they are not to be touched until
///     `wait()` has returned, which throws what has failed. Operations are carried out in the order of the calls, whether they block
///     or not. `overlap()`: what the options say of it; `has_spare_core()`: whether it would take no core from a rank.
/// 11. `shares_memory()`, the same on all ranks. Where it is true, ranks that have parameters of their own reach each other's
///     `values`, and there is `reduce_scatter_all_gather(status, values, f)`: sums as all_reduce(status, values) does, but gives
///     all ranks what f makes of the sums. It calls f(status sums, offset, values sums, results) for pieces of a share (of all
///     values where these are few), and f writes as many results. f must make the same of a piece on any rank. When f throws, so
///     does this, and the other ranks wait until abort tells them.
/// 12. `activity()`: an ActivityBoard (core/activity.hpp) on which this rank says what it is doing,
///     for the messages of the others. All replicas of a process have one board. A Transport may
///     have it too.
///
/// All calls but abort() come from one thread at a time, though not always the same.
template <class C>
concept Collective = requires(C& collective, const C& same, std::span<float> floats, std::span<double> doubles,
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

}  // namespace lockstep::inline LOCKSTEP_ABI
