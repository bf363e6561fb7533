// The updates of workers that each update a share of the parameters.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/collectives/options.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/text.hpp"
#include "lockstep/core/trace.hpp"
#include "lockstep/step/updater.hpp"
#include "lockstep/step/updaters/all_reduce.hpp"
#include "lockstep/step/variables.hpp"
#include "lockstep/strategies/any_strategy.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Blocks, if the collective can scatter them, a worker needs only the gradients of its elements,
/// and there are enough blocks to be fair. Otherwise one range for each worker, cut between
/// variables if the optimizer updates whole ones. The same on all ranks.
template <class T>
[[nodiscard]] UpdateShares update_shares_of(const Variables<T>& variables, AnyReplica& replica) {
  const std::size_t elements = variables.parameters().values().size();
  const int workers = replica.collective().size() / replica.local_size();
  const auto count = static_cast<std::size_t>(workers);
  const bool whole = variables.updates_whole_variables();
  const bool needs_others =
      whole || (variables.clips_by_norm() && !variables.clips_by_global_norm());
  UpdateShares shares;
  const Partition partition(elements, workers);
  if (replica.collective().can().shard && !needs_others && partition.is_fair()) {
    for (int worker = 0; worker < workers; ++worker) {
      std::vector<std::pair<std::size_t, std::size_t>> blocks;
      const int group = partition.group_ending_at(worker);
      for (std::size_t k = 0; k < partition.group_size(group); ++k) {
        const Piece block = partition.group_block(group, k);
        blocks.emplace_back(block.offset, block.count);
      }
      shares.add(blocks);
    }
    shares.set_of_blocks();
    return shares;
  }
  const auto begin_of = [&](std::size_t worker) {
    if (worker == count) return elements;
    const std::size_t wanted = variables.parameters().part(worker, count).first;
    if (!whole) return wanted;
    const auto distance = [&](std::size_t begin) {
      return begin < wanted ? wanted - begin : begin - wanted;
    };
    std::size_t nearest = elements;
    for (const UpdateRange& range : variables.ranges())
      if (distance(range.begin) < distance(nearest)) nearest = range.begin;
    return nearest;
  };
  for (std::size_t worker = 0; worker < count; ++worker) {
    std::vector<std::pair<std::size_t, std::size_t>> range;
    const std::size_t begin = begin_of(worker), end = begin_of(worker + 1);
    if (begin < end) range.emplace_back(begin, end - begin);
    shares.add(range);
  }
  return shares;
}

/// Each worker updates its share of the parameters, and has the slots of this share alone: ZeRO's
/// first stage (Rajbhandari et al., 2020), or the sharding of Xu et al., "Automatic cross-replica
/// sharding of weight update in data-parallel training", 2020. The replicas of a worker divide its
/// share.
///
/// Where the shares are blocks (see update_shares_of), the gradients are reduced and scattered, and
/// the new parameters gathered: together the bytes of one all-reduce. Else all gradients are
/// reduced to all, and each worker's parameters sent to all. The status goes first, since an update
/// needs the number of rows. With Overlap::on, blocks are reduced and scattered in ranges while
/// backward computes others (see EarlyRanges), and the status goes behind them. The bits are those
/// of the other routes, but for a clip by global_clipnorm over blocks: then each worker sums the
/// squares of its share, and these sums are added, which may change the last bit of the norm. It is
/// the same on all ranks.
///
/// Where the shares have gradients (UpdateShares::has_gradients; ZeRO's second stage), each range
/// is reduced when it is ready in any case, at once or beside backward, and what is another
/// worker's of the sums is given back to the system.
template <class T>
class ShardedUpdater final : public Updater<T> {
  using Base = Updater<T>;
  using Base::parts_;

 public:
  explicit ShardedUpdater(const Parts<T>& parts)
      : Base(parts),
        ranges_(parts.workspace.gradients().values().size(), parts.replica.collective().size()),
        has_gradients_(parts.variables.shares().has_gradients()),
        is_early_(can_be_early(parts) && !ranges_.empty()),
        name_(concat({parts.variables.shares().is_of_blocks() ? "reduce-scatter" : "all-reduce",
                      is_early_        ? ", overlapped with backward, "
                      : has_gradients_ ? ", in ranges during backward, "
                                       : ", ",
                      "then each worker updates a share; optimizer slots: ",
                      slot_bytes(parts.variables.shares().size(parts.variables.worker())) / 1000,
                      " kB of ", slot_bytes(parts.variables.parameters().values().size()) / 1000,
                      " kB in this worker"})) {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }

  typename Base::Progress begin(const UpdateStep& step) override {
    step_ = step;
    ranges_.begin_step();
    begun_ = waits_from_ = 0;
    return (is_early_ || has_gradients_) && !ranges_.empty() ? Base::Progress::gradients
                                                             : Base::Progress::none;
  }
  void ready(std::size_t count) override {
    if (!is_early_ && !has_gradients_) return;
    ranges_.ready(count, [this](std::size_t begin, std::size_t size) {
      const TraceSpan span(step_.trace, TracePart::collective);
      const auto start = Trace::Clock::now();
      if (has_gradients_) release_reduced();
      reduce_range(gradients().subspan(begin, size));
      begun_ = begin + size;
      if (!is_early_) release_reduced();
      parts_.workspace.in_collective += Trace::Clock::now() - start;
    });
  }

  bool finish() override {
    const auto reduce_begin = Trace::Clock::now();
    bool makes_update = false;
    {
      const TraceSpan span(step_.trace, TracePart::collective);
      makes_update = reduce();
    }
    const auto update_begin = Trace::Clock::now();
    if (makes_update) {
      const TraceSpan span(step_.trace, TracePart::optimizer);
      update();
    }
    const auto gather_begin = Trace::Clock::now();
    const TraceSpan span(step_.trace, TracePart::collective);
    if (makes_update) gather();
    parts_.replica.team_barrier();  // no replica reads parameters that another has yet to write
    parts_.workspace.in_collective +=
        update_begin - reduce_begin + (Trace::Clock::now() - gather_begin);
    return makes_update;
  }

 private:
  [[nodiscard]] std::size_t slot_bytes(std::size_t elements) const {
    return parts_.program.layout().slots * elements * sizeof(T);
  }
  [[nodiscard]] std::span<T> gradients() const { return parts_.workspace.gradients().values(); }
  [[nodiscard]] std::span<T> parameters() const { return parts_.variables.parameters().values(); }
  [[nodiscard]] bool is_of_blocks() const { return parts_.variables.shares().is_of_blocks(); }

  // Whether ranges are reduced beside backward: where the options say so, and the collective can.
  [[nodiscard]] static bool can_be_early(const Parts<T>& parts) {
    const AnyCollective& collective = parts.replica.collective();
    if (collective.overlap() != Overlap::on) return false;
    return parts.variables.shares().is_of_blocks()
               ? collective.can().shard_early
               : parts.variables.shares().has_gradients() && collective.can().overlap;
  }

  void reduce_range(std::span<T> values) {
    auto& collective = parts_.replica.collective();
    if (is_of_blocks())
      is_early_ ? collective.reduce_scatter_blocks_async(values)
                : collective.reduce_scatter_blocks(values);
    else if (is_early_)
      collective.all_reduce_async(values);
    else
      collective.all_reduce(std::span<double>(), values);
  }

  // Gives back what others update of the ranges that have been reduced.
  void release_reduced() {
    if (waits_from_ == begun_) return;
    if (is_early_) parts_.replica.collective().wait();
    std::size_t end = begun_;
    if (parts_.variables.needs_norms() && !is_of_blocks())  // the norms of all gradients
      end = parts_.variables.norms().compute_between(
          std::span<const T>(gradients()), waits_from_, end,
          static_cast<std::size_t>(parts_.replica.local_rank()),
          static_cast<std::size_t>(parts_.replica.local_size()));
    release(waits_from_, end - waits_from_);
    waits_from_ = end;
  }
  void release(std::size_t begin, std::size_t size) {
    parts_.variables.shares().each_other(
        parts_.variables.worker(), begin, size, [this](std::size_t first, std::size_t count) {
          const auto bytes = std::as_writable_bytes(gradients().subspan(first, count));
          release_pages(bytes.data(), bytes.size());
        });
  }

  // Status and gradients of all ranks. Returns whether there is an update to make.
  bool reduce() {
    auto& workspace = parts_.workspace;
    auto& collective = parts_.replica.collective();
    if (has_gradients_) ready(gradients().size());  // (a user's loop has not said so before)
    const std::span<T> left = gradients().subspan(ranges_.begun());
    // With a loss scale, the status says whether each rank's gradients are finite.
    const bool status_last = is_of_blocks() && parts_.variables.scales_loss();
    if (status_last) {
      collective.reduce_scatter_blocks(left);
      if (is_early_) collective.wait();
      workspace.status().gradient_squares() = squares_of_share();
    }
    collective.all_reduce(workspace.pack_status(), is_of_blocks() ? left.first(0) : left);
    workspace.take_status(collective.size());
    const bool makes_update = step_.makes_update(workspace.status().values());
    if (!makes_update) workspace.status().gradient_squares() = 0;  // as where they are not known
    // (Also without an update, so that the wire's residuals go on as ever.)
    if (is_of_blocks() && !status_last) collective.reduce_scatter_blocks(left);
    if (is_early_ && !status_last) collective.wait();
    begun_ = gradients().size();
    if (has_gradients_) release_reduced();
    if (!makes_update || !parts_.variables.needs_norms()) return makes_update;
    find_norms();
    return are_finite(parts_);
  }
  [[nodiscard]] double squares_of_share() const {
    double squares = 0;
    each_range([&](std::size_t begin, std::size_t size) {
      squares += parts_.variables.norms().squares_in(std::span<const T>(gradients()), begin, size);
    });
    return squares;
  }

  void each_range(FunctionRef<void(std::size_t, std::size_t)> f) const {
    parts_.variables.each_range_of_share(static_cast<std::size_t>(parts_.replica.local_rank()),
                                         static_cast<std::size_t>(parts_.replica.local_size()), f);
  }

  void find_norms() {
    auto& replica = parts_.replica;
    GradientNorms& norms = parts_.variables.norms();
    if (is_of_blocks()) {
      double squares = parts_.workspace.status().gradient_squares();
      if (!parts_.variables.scales_loss()) {
        squares = squares_of_share();
        replica.collective().all_reduce(std::span<double>(&squares, 1), ReduceOp::sum);
      }
      if (replica.local_rank() == 0) norms.set_squares(squares);
    } else if (!has_gradients_) {
      norms.compute_part(std::span<const T>(gradients()),
                         static_cast<std::size_t>(replica.local_rank()),
                         static_cast<std::size_t>(replica.local_size()));
    }
    replica.team_barrier();
  }

  void update() {
    const double rows = step_.rows(parts_.workspace.status().values());
    each_range([&](std::size_t begin, std::size_t size) {
      parts_.variables.update(parameters().subspan(begin, size), gradients().subspan(begin, size),
                              begin, rows, step_.iteration);
    });
  }

  // All workers get all shares. (Replicas that share the parameters with another receive into their
  // gradients.)
  void gather() {
    auto& replica = parts_.replica;
    const bool leader = replica.local_rank() == 0;
    const UpdateShares& shares = parts_.variables.shares();
    if (is_of_blocks()) {
      replica.collective().all_gather_blocks(leader ? parameters() : std::span<T>());
    } else {
      replica.team_barrier();
      for (int worker = 0; worker < shares.workers(); ++worker)
        for (const SharePiece& piece : shares.of(worker))
          replica.collective().broadcast(
              std::as_writable_bytes(
                  (leader ? parameters() : gradients()).subspan(piece.begin, piece.size)),
              worker * replica.local_size());
      if (has_gradients_ && !leader) release(0, gradients().size());
    }
    if (!parts_.variables.has_averages()) return;
    replica.team_barrier();
    const auto [begin, size] =
        parts_.variables.parameters().part(static_cast<std::size_t>(replica.local_rank()),
                                           static_cast<std::size_t>(replica.local_size()));
    parts_.variables.average(parameters().subspan(begin, size), begin, step_.iteration);
  }

  EarlyRanges ranges_;
  const bool has_gradients_;
  const bool is_early_;
  const std::string name_;
  std::size_t begun_ = 0;       // elements whose reduction has begun
  std::size_t waits_from_ = 0;  // from here to there, what is others' has not been given back
  UpdateStep step_;
};

}}}  // namespace lockstep::detail
