// What strategies have for a program's loops: distribute, and reduce.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "lockstep/collectives/operation.hpp"
#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

/// How OwnLoops::reduce combines the values of all replicas; `mean` is over the replicas.
enum class Reduction : std::uint8_t { sum, mean, max };

/// What a function returned on each replica of this process: the result of a strategy's run(f)
/// where f returns a value.
/// Use: `strategy.run([](auto& here) { return here.local_rank(); })`.
template <class R>
class PerReplica {
 public:
  explicit PerReplica(int replicas) : values_(static_cast<std::size_t>(replicas)) {}

  [[nodiscard]] int size() const noexcept { return static_cast<int>(values_.size()); }
  [[nodiscard]] R& operator[](int local_rank) noexcept {
    return values_[static_cast<std::size_t>(local_rank)].value;
  }
  [[nodiscard]] const R& operator[](int local_rank) const noexcept {
    return values_[static_cast<std::size_t>(local_rank)].value;
  }

 private:
  struct Value {  // (a vector of bool would share bytes)
    R value{};
  };
  std::vector<Value> values_;
};

namespace detail {

/// What run(f) returns: nothing, or a PerReplica of what f returned.
template <class F, class Replica, class R = std::invoke_result_t<F&, Replica&>>
using PerReplicaOf =
    std::conditional_t<std::is_void_v<R>, void, PerReplica<std::remove_cvref_t<R>>>;

/// Calls run(g) with a g that calls f(replica), and returns what f returned, if anything.
template <class Replica, class F, class Run>
PerReplicaOf<F, Replica> run_per_replica(int replicas, F& f, const Run& run) {
  using Results = PerReplicaOf<F, Replica>;
  if constexpr (std::is_void_v<Results>) {
    run(f);
  } else {
    Results results(replicas);
    const auto keep = [&](Replica& replica) { results[replica.local_rank()] = f(replica); };
    run(keep);
    return results;
  }
}

/// Defined in training/own_loop.hpp.
template <class T>
struct Distribute;

}  // namespace detail

/// A base of strategies, S among them. A program's strategy may derive from it, too.
template <class S>
class OwnLoops {
 public:
  /// A dataset's global batches in parts for all replicas, as tf.distribute's
  /// experimental_distribute_dataset: a DistributedBatches<T>.
  /// Use: `strategy.distribute(dataset)`. Keras: `experimental_distribute_dataset`.
  template <class T = float, class D>
  [[nodiscard]] auto distribute(const D& dataset) {
    static_assert(
        requires { sizeof(detail::Distribute<T>); },
        "lockstep: to distribute a dataset, #include <lockstep/model/own_loop.hpp>");
    return detail::Distribute<T>::of(static_cast<S&>(*this), dataset);
  }

  /// The sum, mean or maximum over all replicas of all workers of what run() returned on each.
  /// Called outside of run(), by every worker.
  /// Use: `strategy.reduce(Reduction::mean, per_replica)`.
  template <class V>
    requires std::is_arithmetic_v<V>
  [[nodiscard]] double reduce(Reduction how, const PerReplica<V>& values) {
    return reduce_values<1>(how,
                            [&](int i) { return std::array{static_cast<double>(values[i])}; })[0];
  }
  /// Several numbers at once.
  template <class V, std::size_t N>
    requires std::is_arithmetic_v<V>
  [[nodiscard]] std::array<double, N> reduce(Reduction how,
                                             const PerReplica<std::array<V, N>>& values) {
    return reduce_values<N>(how, [&](int i) {
      std::array<double, N> all{};
      for (std::size_t n = 0; n < N; ++n) all[n] = static_cast<double>(values[i][n]);
      return all;
    });
  }

 private:
  template <std::size_t N, class Values>
  std::array<double, N> reduce_values(Reduction how, const Values& values) {
    S& strategy = static_cast<S&>(*this);
    std::array<double, N> result{};
    strategy.run([&](auto& replica) {
      std::array<double, N> mine = values(replica.local_rank());
      replica.collective().all_reduce(std::span<double>(mine),
                                      how == Reduction::max ? ReduceOp::max : ReduceOp::sum);
      if (replica.local_rank() == 0) result = mine;
    });
    if (how == Reduction::mean)
      for (double& value : result) value /= strategy.num_replicas_in_sync();
    return result;
  }
};

}}  // namespace lockstep
