// Two levels: the threads of each process, then the processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/collectives/argument_checks.hpp"
#include "lockstep/collectives/concepts.hpp"
#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/policies/hierarchical_group.hpp"
#include "lockstep/collectives/threads/in_process.hpp"
#include "lockstep/core/activity.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"

namespace lockstep::inline LOCKSTEP_ABI {

// (Bodies stand outside of their classes, so that the library can hold the usual instances.)

/// A Collective of all threads of all processes. Rank = outer rank * local size + local rank. Sums
/// are formed inside each process first (each level keeps the order of Partition), so that the bits
/// differ from those of as many ranks on one level, but not from one run to the next.
template <Collective Outer>
class Hierarchical {
 public:
  Hierarchical(HierarchicalGroup<Outer>& group, int local_rank) noexcept
      : group_(&group), inner_(group.inner_.member(local_rank)) {}

  [[nodiscard]] int rank() const noexcept { return outer_rank() * local_size() + local_rank(); }
  [[nodiscard]] int size() const noexcept {
    return (group_->outer_ == nullptr ? 1 : group_->outer_->size()) * local_size();
  }
  [[nodiscard]] int local_rank() const noexcept { return inner_.rank(); }
  [[nodiscard]] int local_size() const noexcept { return inner_.size(); }
  /// The threads of this process alone.
  [[nodiscard]] InProcess& team() noexcept { return inner_; }

  /// See ReportingCollective. The threads share the board of the outer collective, if it has one.
  [[nodiscard]] ActivityBoard& activity() noexcept { return inner_.activity(); }

  /// What the first thread gets is the outer collective's, where it has such memory.
  [[nodiscard]] Buffer allocate(std::size_t bytes);

  void all_reduce(NumberSpan values, ReduceOp op = ReduceOp::sum);
  void all_reduce(std::span<double> status, NumberSpan values);
  void broadcast(std::span<std::byte> bytes, int root);
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);
  void barrier();

  /// See OverlappingCollective. The threads of the process sum their values at once; then the first
  /// one's go out.
  void all_reduce_async(NumberSpan values) {
    begin_async(values, [](void* outer, NumberSpan array) {
      detail::all_reduce(*static_cast<Outer*>(outer), std::span<double>(), array);
    });
  }
  void wait();
  [[nodiscard]] Overlap overlap() const noexcept;

  /// See SharingCollective: where the processes do, and have one thread each.
  [[nodiscard]] bool shares_memory() const noexcept
    requires SharingCollective<Outer>
  {
    // (clang++ 14 instantiates it for every Outer.)
    if constexpr (SharingCollective<Outer>)
      return group_->outer_ != nullptr && local_size() == 1 && group_->outer_->shares_memory();
    else
      return false;
  }
  void reduce_scatter_all_gather(std::span<double> status, NumberSpan values, UseSums f)
    requires SharingCollective<Outer>
  {
    if constexpr (SharingCollective<Outer>)
      outside([&](Outer& outer) { detail::reduce_scatter_all_gather(outer, status, values, f); });
  }

  /// See ResidualCollective: of the first thread's values, which go out.
  [[nodiscard]] bool keeps_residuals() const noexcept {
    if constexpr (ResidualCollective<Outer>)
      return group_->outer_ != nullptr && group_->outer_->keeps_residuals();
    else
      return false;
  }
  void keep_residuals([[maybe_unused]] std::span<const float> values,
                      [[maybe_unused]] std::span<float> residuals) {
    if constexpr (ResidualCollective<Outer>)
      if (group_->outer_ != nullptr && local_rank() == 0)
        group_->outer_->keep_residuals(values, residuals);
  }

  /// See ShardingCollective, EarlyShardingCollective.
  void reduce_scatter_blocks(NumberSpan values)
    requires ShardingCollective<Outer>
  {
    if constexpr (ShardingCollective<Outer>) {
      if (group_->outer_ == nullptr) return inner_.all_reduce(values);
      inner_.reduce_to_first({}, values);
      outside([&](Outer& outer) { outer.reduce_scatter_blocks(values); });
      hand_out(values.bytes());
    }
  }
  void reduce_scatter_blocks_async(NumberSpan values)
    requires ShardingCollective<Outer>
  {
    if constexpr (ShardingCollective<Outer>)
      begin_async(values, [](void* outer, NumberSpan array) {
        static_cast<Outer*>(outer)->reduce_scatter_blocks(array);
      });
  }
  void all_gather_blocks(NumberSpan values)
    requires ShardingCollective<Outer>
  {
    inner_.barrier();
    if constexpr (ShardingCollective<Outer>)
      if (group_->outer_ != nullptr) outside([&](Outer& o) { o.all_gather_blocks(values); });
    hand_out({});
  }

  /// For the threads of this process and for all others.
  void abort(std::string_view reason, ExitCode code = ExitCode::failure) noexcept;

 private:
  [[nodiscard]] int outer_rank() const noexcept {
    return group_->outer_ == nullptr ? 0 : group_->outer_->rank();
  }

  void begin_async(NumberSpan values, void (*reduce)(void*, NumberSpan));

  // Runs f on the first thread, after what has been begun before. When something fails, the other
  // threads get the same failure.
  void outside(FunctionRef<void(Outer&)> f);

  // While the first thread is outside, the others wait without a deadline of their own: it has one.
  void hand_out(std::span<std::byte> bytes) {
    inner_.broadcast(bytes, 0, &group_->first_is_outside_);
  }

  HierarchicalGroup<Outer>* group_;
  InProcess inner_;
  std::vector<NumberSpan> under_way_;  // by all_reduce_async
};

template <Collective Outer>
Buffer Hierarchical<Outer>::allocate(std::size_t bytes) {
  if constexpr (AllocatingCollective<Outer>)
    if (group_->outer_ != nullptr && local_rank() == 0) return group_->outer_->allocate(bytes);
  return Buffer(bytes);
}

template <Collective Outer>
void Hierarchical<Outer>::all_reduce(NumberSpan values, ReduceOp op) {
  if (group_->outer_ == nullptr) return inner_.all_reduce(values, op);
  inner_.reduce_to_first({}, values, op);
  outside([&](Outer& outer) { detail::all_reduce(outer, values, op); });
  hand_out(values.bytes());
}

template <Collective Outer>
void Hierarchical<Outer>::all_reduce(std::span<double> status, NumberSpan values) {
  if (group_->outer_ == nullptr) return inner_.all_reduce(status, values);
  inner_.reduce_to_first(status, values);
  outside([&](Outer& outer) { detail::all_reduce(outer, status, values); });
  hand_out(std::as_writable_bytes(status));
  hand_out(values.bytes());
}

template <Collective Outer>
void Hierarchical<Outer>::begin_async(NumberSpan values, void (*reduce)(void*, NumberSpan)) {
  if (group_->outer_ == nullptr) return inner_.all_reduce(values);
  inner_.reduce_to_first({}, values);
  detail::append(under_way_, values);
  if (local_rank() == 0) group_->progress_.post({reduce, group_->outer_, values});
}

template <Collective Outer>
void Hierarchical<Outer>::wait() {
  if (under_way_.empty()) return;
  struct Clear {
    std::vector<NumberSpan>& spans;
    ~Clear() { spans.clear(); }
  } const clear{under_way_};
  outside([](Outer&) {});
  for (const NumberSpan values : under_way_) hand_out(values.bytes());
}

template <Collective Outer>
Overlap Hierarchical<Outer>::overlap() const noexcept {
  return group_->outer_ == nullptr ? Overlap::off : group_->overlap_;
}

template <Collective Outer>
void Hierarchical<Outer>::broadcast(std::span<std::byte> bytes, int root) {
  detail::check_root(root, size());
  const int outer_root = root / local_size();
  if (outer_root == outer_rank()) inner_.broadcast(bytes, root % local_size());
  if (group_->outer_ == nullptr) return;
  outside([&](Outer& outer) { outer.broadcast(bytes, outer_root); });
  hand_out(outer_root != outer_rank() ? bytes : std::span<std::byte>{});
}

template <Collective Outer>
void Hierarchical<Outer>::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (group_->outer_ == nullptr) return inner_.all_gather(mine, all);
  const std::size_t bytes = mine.size() * static_cast<std::size_t>(local_size());
  detail::check_lengths(mine.size(), all.size(), size());
  const auto ours = all.subspan(bytes * static_cast<std::size_t>(outer_rank()), bytes);
  inner_.all_gather(mine, ours);
  outside([&](Outer& outer) { outer.all_gather(ours, all); });
  hand_out(all);
}

template <Collective Outer>
void Hierarchical<Outer>::barrier() {
  inner_.barrier();
  if (group_->outer_ == nullptr) return;
  outside([](Outer& outer) { outer.barrier(); });
  hand_out({});
}

template <Collective Outer>
void Hierarchical<Outer>::abort(std::string_view reason, ExitCode code) noexcept {
  inner_.abort(reason, code);
  if (group_->outer_ != nullptr) detail::abort(*group_->outer_, reason, code);
}

template <Collective Outer>
void Hierarchical<Outer>::outside(FunctionRef<void(Outer&)> f) {
  if (local_rank() != 0) return;
  group_->first_is_outside_ = true;
  struct Back {
    std::atomic<bool>& flag;
    ~Back() { flag = false; }
  } const back{group_->first_is_outside_};
  try {
    group_->progress_.wait();
    f(*group_->outer_);
  } catch (const CollectiveError& error) {
    group_->inner_.abort(error.failure());
    throw;
  } catch (const Error& error) {
    inner_.abort(error.what(), error.exit_code());
    throw;
  } catch (const std::exception& error) {
    inner_.abort(error.what());
    throw;
  }
}

}  // namespace lockstep::inline LOCKSTEP_ABI
