#pragma once

#include <cstdint>
#include <exception>
#include <utility>

#include "lockstep/collectives/error.hpp"
#include "lockstep/collectives/operation.hpp"
#include "lockstep/collectives/policies/hierarchical.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/thread.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {
namespace detail {

LOCKSTEP_INLINE ProgressThread::~ProgressThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

LOCKSTEP_INLINE void ProgressThread::post(const Job& job) {
  if (!thread_.joinable())
    thread_ = start_thread("sums that overlap with backward", [this] { work(); });
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) return;
    jobs_.push_back(job);
  }
  posted_.notify_one();
}

LOCKSTEP_INLINE void ProgressThread::wait() {
  std::unique_lock lock(mutex_);
  await_idle(lock);
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

LOCKSTEP_INLINE void ProgressThread::drain() noexcept {
  std::unique_lock lock(mutex_);
  await_idle(lock);
  failure_ = nullptr;
}

LOCKSTEP_INLINE void ProgressThread::await_idle(std::unique_lock<std::mutex>& lock) {
  idle_.wait(lock, [this] { return jobs_.empty(); });
}

LOCKSTEP_INLINE void ProgressThread::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const Job job = jobs_[next_++];
    lock.unlock();
    std::exception_ptr failure;
    try {
      job.function(job.self, job.values);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure != nullptr) failure_ = std::move(failure);
    if (failure_ == nullptr && next_ < jobs_.size()) continue;
    jobs_.clear();
    next_ = 0;
    idle_.notify_one();
  }
}

}  // namespace detail

LOCKSTEP_INLINE HierarchicalGroup::HierarchicalGroup(int local_size, AnyCollective* outer,
                                                     const CommunicationOptions& options,
                                                     int ranks_on_host, int worker)
    : inner_(local_size, options, ranks_on_host), outer_(outer), overlap_(options.overlap) {
  if (outer_ == nullptr) return;
  inner_.belong_to(outer_->rank(), worker);
  if (ActivityBoard* const board = outer_->board()) inner_.share_board(*board);
  const std::int64_t mine = local_size;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(outer_->size()));
  outer_->all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(sizes)));
  for (std::size_t other = 0; other < sizes.size(); ++other)
    if (sizes[other] != mine)
      throw ConfigurationError(
          concat({"all workers must have the same number of replicas: that of rank ", other,
                  " has ", sizes[other], ", that of rank ", outer_->rank(), " has ", mine}));
}

namespace detail {

[[nodiscard]] inline AnyCollective::Abilities abilities_over(const AnyCollective* outer,
                                                             int local_size) {
  const bool shards = outer == nullptr || outer->can().shard;
  return {.overlap = true,
          .share = outer != nullptr && local_size == 1 && outer->can().share,
          .keep_residuals = outer != nullptr && outer->can().keep_residuals,
          .shard = shards,
          .shard_early = shards};
}

}  // namespace detail

LOCKSTEP_INLINE Hierarchical::Hierarchical(HierarchicalGroup& group, int local_rank)
    : AnyCollective(
          (group.outer_ == nullptr ? 0 : group.outer_->rank()) * group.local_size() + local_rank,
          (group.outer_ == nullptr ? 1 : group.outer_->size()) * group.local_size(),
          detail::abilities_over(group.outer_, group.local_size()),
          group.outer_ == nullptr ? Overlap::off : group.overlap_),
      group_(group),
      inner_(group.inner_.member(local_rank)) {}

LOCKSTEP_INLINE Buffer Hierarchical::allocate(std::size_t bytes) {
  return is_alone() || local_rank() != 0 ? Buffer(bytes) : group_.outer_->allocate(bytes);
}

LOCKSTEP_INLINE ActivityBoard* Hierarchical::board() { return inner_.board(); }

template <class F>
void Hierarchical::outside(const F& f) {
  if (local_rank() != 0) return;
  group_.first_is_outside_ = true;
  struct Back {
    std::atomic<bool>& flag;
    ~Back() { flag = false; }
  } const back{group_.first_is_outside_};
  try {
    group_.progress_.wait();
    f(*group_.outer_);
  } catch (const std::exception&) {
    tell_threads();
    throw;
  }
}

LOCKSTEP_INLINE void Hierarchical::tell_threads() noexcept {
  try {
    throw;
  } catch (const CollectiveError& error) {
    group_.inner_.abort(error.failure());
  } catch (const Error& error) {
    inner_.abort(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    inner_.abort(error.what());
  }
}

LOCKSTEP_INLINE void Hierarchical::all_reduce(NumberSpan values, ReduceOp op) {
  if (is_alone()) return inner_.all_reduce(values, op);
  inner_.reduce_to_first({}, values, op);
  outside([&](AnyCollective& outer) { outer.all_reduce(values, op); });
  hand_out(values.bytes());
}

LOCKSTEP_INLINE void Hierarchical::all_reduce(std::span<double> status, NumberSpan values) {
  if (is_alone()) return inner_.all_reduce(status, values);
  inner_.reduce_to_first(status, values);
  outside([&](AnyCollective& outer) { outer.all_reduce(status, values); });
  hand_out(std::as_writable_bytes(status));
  hand_out(values.bytes());
}

LOCKSTEP_INLINE void Hierarchical::all_reduce_async(NumberSpan values) {
  begin_async(values, [](void* outer, NumberSpan array) {
    static_cast<AnyCollective*>(outer)->all_reduce(std::span<double>(), array);
  });
}

LOCKSTEP_INLINE void Hierarchical::begin_async(NumberSpan values,
                                               void (*reduce)(void*, NumberSpan)) {
  if (is_alone()) return inner_.all_reduce(values);
  inner_.reduce_to_first({}, values);
  under_way_.push_back(values);
  if (local_rank() == 0) group_.progress_.post({reduce, group_.outer_, values});
}

LOCKSTEP_INLINE void Hierarchical::wait() {
  if (under_way_.empty()) return;
  struct Clear {
    std::vector<NumberSpan>& spans;
    ~Clear() { spans.clear(); }
  } const clear{under_way_};
  outside([](AnyCollective&) {});
  for (const NumberSpan values : under_way_) hand_out(values.bytes());
}

LOCKSTEP_INLINE void Hierarchical::reduce_scatter_all_gather(std::span<double> status,
                                                             NumberSpan values, UseSums f) {
  outside([&](AnyCollective& outer) { outer.reduce_scatter_all_gather(status, values, f); });
}

LOCKSTEP_INLINE void Hierarchical::keep_residuals(std::span<const float> values,
                                                  std::span<float> residuals) {
  if (can().keep_residuals && local_rank() == 0) group_.outer_->keep_residuals(values, residuals);
}

LOCKSTEP_INLINE void Hierarchical::reduce_scatter_blocks(NumberSpan values) {
  if (is_alone()) return inner_.all_reduce(values);
  inner_.reduce_to_first({}, values);
  outside([&](AnyCollective& outer) { outer.reduce_scatter_blocks(values); });
  hand_out(values.bytes());
}

LOCKSTEP_INLINE void Hierarchical::reduce_scatter_blocks_async(NumberSpan values) {
  begin_async(values, [](void* outer, NumberSpan array) {
    static_cast<AnyCollective*>(outer)->reduce_scatter_blocks(array);
  });
}

LOCKSTEP_INLINE void Hierarchical::all_gather_blocks(NumberSpan values) {
  inner_.barrier();
  if (!is_alone()) outside([&](AnyCollective& outer) { outer.all_gather_blocks(values); });
  hand_out({});
}

LOCKSTEP_INLINE void Hierarchical::broadcast(std::span<std::byte> bytes, int root) {
  detail::check_root(root, size());
  const int outer_root = root / local_size();
  if (outer_root == outer_rank()) inner_.broadcast(bytes, root % local_size());
  if (is_alone()) return;
  outside([&](AnyCollective& outer) { outer.broadcast(bytes, outer_root); });
  hand_out(outer_root != outer_rank() ? bytes : std::span<std::byte>{});
}

LOCKSTEP_INLINE void Hierarchical::all_gather(std::span<const std::byte> mine,
                                              std::span<std::byte> all) {
  if (is_alone()) return inner_.all_gather(mine, all);
  const std::size_t bytes = mine.size() * static_cast<std::size_t>(local_size());
  detail::check_lengths(mine.size(), all.size(), size());
  const auto ours = all.subspan(bytes * static_cast<std::size_t>(outer_rank()), bytes);
  inner_.all_gather(mine, ours);
  outside([&](AnyCollective& outer) { outer.all_gather(ours, all); });
  hand_out(all);
}

LOCKSTEP_INLINE void Hierarchical::barrier() {
  inner_.barrier();
  if (is_alone()) return;
  outside([](AnyCollective& outer) { outer.barrier(); });
  hand_out({});
}

LOCKSTEP_INLINE void Hierarchical::team_barrier() { inner_.barrier(); }

LOCKSTEP_INLINE void Hierarchical::abort(std::string_view reason, ExitCode code) noexcept {
  inner_.abort(reason, code);
  if (!is_alone()) group_.outer_->abort(reason, code);
}

LOCKSTEP_INLINE void Hierarchical::hand_out(std::span<std::byte> bytes) {
  inner_.broadcast(bytes, 0, &group_.first_is_outside_);
}

}}  // namespace lockstep
