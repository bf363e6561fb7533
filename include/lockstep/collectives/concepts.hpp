// The Transport and Collective concepts.
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
/// One function that takes a NumberSpan does for all types. `close()`, `activity()` and
/// `allocate(size)`, as AnyCollective has them, are optional; a type with more derives from
/// AnyCollective, as the library's do.
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

/// What AnyCollective::reduce_scatter calls: f(status sums, offset in elements, sums of values). A
/// function that takes a std::span<const float> in the third place will do for float.
using TakeSums = FunctionRef<void(std::span<const double>, std::size_t, ConstNumberSpan)>;
/// What AnyCollective::reduce_scatter_all_gather calls: f(status sums, offset in elements, sums of
/// values, results).
using UseSums =
    FunctionRef<void(std::span<const double>, std::size_t, ConstNumberSpan, NumberSpan)>;

}}  // namespace lockstep
