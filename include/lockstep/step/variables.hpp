// The variables of a model and its optimizer, which the replicas of a process share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/arena.hpp"
#include "lockstep/core/buffer.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/function_ref.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/kernels/sum_of_squares.hpp"
#include "lockstep/network/loss_scale.hpp"
#include "lockstep/optimizers/hyperparameters.hpp"
#include "lockstep/optimizers/update_rules.hpp"
#include "lockstep/step/program.hpp"
#include "lockstep/step/synchronization.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Sums of squares of the gradients of all variables: each replica of a process computes a part,
/// and after a barrier all read the norms. A variable is cut into blocks, whose sums are added in
/// the order of the arena, so that a norm does not depend on how many replicas compute it.
class GradientNorms {
 public:
  GradientNorms() = default;

  /// For gradients that lie as in `arena`.
  template <class T>
  explicit GradientNorms(const Arena<T>& arena) {
    for (std::size_t i = arena.slices().size(); i > 0; --i) {
      const std::span<T> slice = arena.slices()[i - 1];
      const auto begin = static_cast<std::size_t>(slice.data() - arena.values().data());
      for (std::size_t done = 0; done < slice.size(); done += block_size)
        blocks_.push_back(
            {.begin = begin + done, .size = std::min(block_size, slice.size() - done)});
    }
  }

  /// Computes part `index` of `count`; `gradients` are those of the whole arena.
  template <class T>
  void compute_part(std::span<const T> gradients, std::size_t index, std::size_t count) {
    const std::size_t end = blocks_.size() * (index + 1) / count;
    for (std::size_t i = blocks_.size() * index / count; i < end; ++i)
      blocks_[i].squares =
          kernels::sum_of_squares(gradients.subspan(blocks_[i].begin, blocks_[i].size));
  }

  /// Computes those blocks from element `begin` on that end at `end` at the latest, as part `index`
  /// of `count`; returns where the next block begins, or `end` after the last one.
  template <class T>
  std::size_t compute_between(std::span<const T> gradients, std::size_t begin, std::size_t end,
                              std::size_t index, std::size_t count) {
    for (auto block = std::ranges::lower_bound(blocks_, begin, {}, &Block::begin);
         block != blocks_.end() && block->begin < end; ++block) {
      if (block->begin + block->size > end) return block->begin;
      if (static_cast<std::size_t>(block - blocks_.begin()) % count == index)
        block->squares = kernels::sum_of_squares(gradients.subspan(block->begin, block->size));
    }
    return end;
  }

  /// The sum of squares in elements [begin, begin + size), for ranks that have a part of the
  /// gradients each.
  template <class T>
  [[nodiscard]] double squares_in(std::span<const T> gradients, std::size_t begin,
                                  std::size_t size) const {
    double sum = 0;
    for (const Block& block : blocks_) {
      const std::size_t first = std::max(block.begin, begin);
      const std::size_t end = std::min(block.begin + block.size, begin + size);
      if (first < end) sum += kernels::sum_of_squares(gradients.subspan(first, end - first));
    }
    return sum;
  }
  /// From the sums of all ranks: norm() of all variables is the root of `squares`. (That of a part
  /// of them means nothing then.)
  void set_squares(double squares) noexcept;

  /// The norm of the variables in elements [begin, end) of the arena.
  [[nodiscard]] double norm(std::size_t begin = 0,
                            std::size_t end = std::numeric_limits<std::size_t>::max()) const;

 private:
  static constexpr std::size_t block_size = 16'384;

  struct Block {
    std::size_t begin = 0;
    std::size_t size = 0;
    double squares = 0;
  };

  std::vector<Block> blocks_;  // in the order of the arena
};

/// A range of elements of the arena, and where the slots of a worker have the first of them.
struct SharePiece {
  std::size_t begin = 0;
  std::size_t size = 0;
  std::size_t place = 0;
};

/// How workers share out the updates of a model: each updates its pieces of the arena, and has the
/// optimizer's slots of these alone, one piece after the other (stage 1 of Rajbhandari et al.,
/// "ZeRO: memory optimizations toward training trillion parameter models", 2020). The same on all
/// workers. Pieces begin at multiples of 64 bytes, in the arena and in the slots.
class UpdateShares {
 public:
  /// One worker has all.
  UpdateShares() = default;

  /// Adds the share of the next worker. `begins` and sizes of its pieces ascend.
  void add(const std::vector<std::pair<std::size_t, std::size_t>>& begins_and_sizes);
  /// Says that the shares are the blocks of each worker (see AnyCollective::reduce_scatter_blocks).
  void set_of_blocks() noexcept { is_of_blocks_ = true; }

  /// Says that a worker keeps the gradients of its share alone, in a paged_buffer(). (Stage 2.)
  void set_with_gradients() noexcept { has_gradients_ = true; }

  [[nodiscard]] bool is_of_blocks() const noexcept { return is_of_blocks_; }
  [[nodiscard]] bool has_gradients() const noexcept { return has_gradients_; }
  [[nodiscard]] int workers() const noexcept {
    return of_workers_.empty() ? 1 : static_cast<int>(of_workers_.size());
  }
  [[nodiscard]] std::span<const SharePiece> of(int worker) const noexcept {
    return of_workers_[static_cast<std::size_t>(worker)];
  }
  /// Elements of a worker's share.
  [[nodiscard]] std::size_t size(int worker) const noexcept;
  /// Calls f(begin, size) for what of elements [begin, begin + size) is in no piece of `worker`.
  void each_other(int worker, std::size_t begin, std::size_t size,
                  FunctionRef<void(std::size_t, std::size_t)> f) const;
  /// The place of an element of a worker's share in its slots.
  [[nodiscard]] std::size_t place(int worker, std::size_t element) const noexcept;

 private:
  std::vector<std::vector<SharePiece>> of_workers_;
  bool is_of_blocks_ = false;
  bool has_gradients_ = false;
};

/// Returns memory of zeros.
using Allocate = FunctionRef<Buffer(std::size_t bytes)>;

/// Draws the initial values. Each variable has its own random stream, so that its values depend
/// only on the seed and on its place in the model.
template <class T>
void initialize(std::span<const Variable> variables, std::span<const std::span<T>> slices,
                RandomKey key);

/// A part of the arena that is updated by one rule: from element `begin` on, to the next range.
struct UpdateRange {
  std::size_t begin = 0;
  std::size_t variable = 0;  ///< its first one, the last in the list of variables
  VariableRule rule{};
};

/// Parameters, optimizer slots and counters of a Program.
template <class T>
class Variables {
 public:
  /// Parameters are zeros, slots as the optimizer wants them at first.
  /// `shares_updates`: the optimizer's slots come later, by share_updates().
  explicit Variables(const Program<T>& program, const Synchronization& synchronization = {},
                     bool shares_updates = false);

  [[nodiscard]] const Arena<T>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] Arena<T>& parameters() noexcept { return parameters_; }
  /// Makes the parameters zeros in memory from `allocate` (see Arena).
  void allocate_parameters(Allocate allocate);
  /// Swaps the parameters with the values of `arena`. A view of one then shows the other.
  void swap_parameters(Arena<T>& arena) noexcept;

  /// The optimizer's, and behind them the moving averages of the parameters, if it keeps them, and
  /// the momentum of the outer optimizer, if it has one.
  [[nodiscard]] std::span<const Arena<T>> slots() const noexcept { return slots_; }
  [[nodiscard]] std::span<Arena<T>> slots() noexcept { return slots_; }

  /// With rounds, a rank has its own variables, equal to those of the others after a meeting:
  /// all but the slots of the optimizer.
  [[nodiscard]] const Synchronization& synchronization() const noexcept { return synchronization_; }
  [[nodiscard]] bool is_in_rounds() const noexcept { return synchronization_.is_in_rounds(); }
  /// How many of slots(), from the first on, differ between ranks.
  [[nodiscard]] std::size_t own_slots() const noexcept {
    return is_in_rounds() ? program_.layout().slots : 0;
  }
  [[nodiscard]] std::span<T> averages() noexcept {
    return slots_[shares_updates_ ? 0 : program_.layout().slots].values();
  }
  /// The outer optimizer's momentum; empty when it has none.
  [[nodiscard]] std::span<T> outer_momentum() noexcept {
    return synchronization_.momentum() == 0 ? std::span<T>() : slots_.back().values();
  }
  /// Takes over all that ranks have in common after a meeting.
  void take_over(const Variables& other);

  /// From now on, each of several workers updates a share of the parameters. This one, `worker`,
  /// has the optimizer's slots of its share alone, initialised. (Averages stay whole on all
  /// workers; slots() has only these.)
  void share_updates(UpdateShares shares, int worker);
  [[nodiscard]] bool shares_updates() const noexcept { return shares_updates_; }
  [[nodiscard]] const UpdateShares& shares() const noexcept { return shares_; }
  [[nodiscard]] int worker() const noexcept { return worker_; }
  /// The elements of this worker's share, in the optimizer's slot of this number.
  [[nodiscard]] std::span<T> slot_share(std::size_t slot) const noexcept {
    const Buffer& values = slot_shares_[slot];
    return {reinterpret_cast<T*>(values.data()), values.size() / sizeof(T)};
  }
  /// Calls f(begin, size) for each range of part `index` of `count` of this worker's share;
  /// update() may be called for each.
  void each_range_of_share(std::size_t index, std::size_t count,
                           FunctionRef<void(std::size_t, std::size_t)> f) const;

  /// The rate of the next update: by the schedule, or as it was set.
  [[nodiscard]] double learning_rate() const { return learning_rate_of(iterations); }
  /// With a schedule it has no effect.
  void set_learning_rate(double rate) noexcept { learning_rate_ = rate; }
  [[nodiscard]] bool has_schedule() const noexcept { return schedule_.has_value(); }

  /// Counts update number `iteration`, whose parts are all done, and begins an empty window.
  /// `has_updated`: it has changed parameters. After one that was left out (has_overflowed),
  /// `iteration` is the number of the one before.
  void complete_update(std::int64_t iteration, bool has_updated, bool has_overflowed = false);

  std::int64_t iterations = 0;        ///< updates made
  double previous_learning_rate = 0;  ///< of the last one; 0: there was none, or not known
  /// Of the next step. (Replicas have copies of their own, as of the number of updates.)
  LossScale loss_scale{};
  [[nodiscard]] bool scales_loss() const noexcept {
    return program_.layout().loss_scale.has_value();
  }
  [[nodiscard]] LossScale initial_loss_scale() const noexcept {
    if (!scales_loss()) return {};
    return {static_cast<double>(program_.layout().loss_scale->initial_scale), 0};
  }
  /// What `scale` is after a step.
  void advance(LossScale& scale, bool has_overflowed) const noexcept {
    if (scales_loss()) scale.advance(*program_.layout().loss_scale, has_overflowed);
  }
  /// Changes when something other than a custom loop changes the number above.
  std::int64_t revision = 0;

  /// The number of steps whose gradients make one update: a window of steps.
  [[nodiscard]] std::int64_t accumulation_steps() const noexcept { return accumulation_steps_; }
  /// The steps of the open window whose gradients are in accumulated(), reduced over all ranks, and
  /// their rows.
  std::int64_t accumulated_steps = 0;
  double accumulated_rows = 0;
  /// Empty with a window of one step.
  [[nodiscard]] const Arena<T>& accumulated() const noexcept { return accumulated_; }
  [[nodiscard]] Arena<T>& accumulated() noexcept { return accumulated_; }

  [[nodiscard]] bool has_averages() const noexcept { return averaging_.is_on; }
  /// Swaps the parameters and their moving averages. (Before the first update there are no
  /// averages: the parameters stand for them.) No update can be made until they are swapped back.
  void swap_averages();
  [[nodiscard]] bool shows_averages() const noexcept { return shows_averages_; }
  /// For a state that was saved while they were swapped.
  void set_shows_averages(bool shows) noexcept { shows_averages_ = shows && has_averages(); }
  /// At the end of training: parameters become their averages, if there are any.
  void take_averages();
  std::uint64_t seed = 0;
  /// Number of the pass over the training data that the next fit begins with: passes are counted
  /// over all fits.
  std::int64_t next_pass = 0;

  /// CRC-32C over all parameters in canonical order and layout: equal for equal bits, whatever the
  /// strategy.
  [[nodiscard]] std::uint32_t parameters_crc32c() const;

  /// Applies gradients, reduced over `rows` rows, of the parameters from number `begin` on;
  /// these are in `parameters`. Update `iteration` is 1 for the first one. Several threads may call
  /// it at once, for different parameters. The optimizer sweeps over each range of equal rules.
  /// With clips_by_norm(), norms() must be those of these gradients. Where updates are shared, it
  /// leaves the averages to average(). Done when it returns, on a device too.
  void update(std::span<T> parameters, std::span<const T> gradients, std::size_t begin, double rows,
              std::int64_t iteration);

  /// The averages of updated parameters from number `begin` on, if they are kept; where it is time,
  /// `parameters` become their averages.
  void average(std::span<T> parameters, std::size_t begin, std::int64_t iteration);

  /// Whether an update needs the norms of all gradients, and so all gradients before it begins.
  [[nodiscard]] bool clips_by_norm() const noexcept { return clipping_.is_by_norm(); }
  /// Whether by the norm of all together, and not of each variable.
  [[nodiscard]] bool clips_by_global_norm() const noexcept { return clipping_.global_clipnorm > 0; }
  /// Whether the optimizer is called for whole variables.
  [[nodiscard]] bool updates_whole_variables() const noexcept { return whole_variables_; }
  /// Whether norms() must be known before an update: to clip, or to see whether all gradients are
  /// finite.
  [[nodiscard]] bool needs_norms() const noexcept { return clips_by_norm() || scales_loss(); }
  /// Whether an update needs all gradients before it begins: for norms, or for whole variables.
  [[nodiscard]] bool needs_all_gradients() const noexcept {
    return needs_norms() || whole_variables_;
  }
  /// Part `index` of `count` of the arena that update() may be called for: where it begins, and how
  /// long it is.
  [[nodiscard]] std::pair<std::size_t, std::size_t> part(std::size_t index,
                                                         std::size_t count) const noexcept;
  [[nodiscard]] GradientNorms& norms() noexcept { return norms_; }

  /// As update() cuts the arena: neighbours have different rules, or are clipped each by its norm.
  [[nodiscard]] std::span<const UpdateRange> ranges() const noexcept { return ranges_; }

 private:
  [[nodiscard]] Arena<T> new_arena() const;
  // After `step` updates.
  [[nodiscard]] double learning_rate_of(std::int64_t step) const {
    return schedule_ ? (*schedule_)(step) : learning_rate_;
  }
  [[nodiscard]] T* slot(std::size_t number, std::size_t element) noexcept;
  /// Calls the optimizer for a range of parameters of one rule. With clipvalue in small pieces,
  /// since the gradients may belong to others.
  void sweep(UpdateContext context, std::span<T> parameters, std::span<const T> gradients,
             std::size_t begin);

  const Program<T>& program_;
  const Synchronization synchronization_;
  double learning_rate_;
  std::optional<LearningRate> schedule_;
  std::vector<UpdateRange> ranges_;  // at least one
  Clipping clipping_;
  Averaging averaging_;
  std::int64_t accumulation_steps_ = 1;
  bool whole_variables_ = false;
  std::vector<std::string> names_;  // of variables, where they are updated whole
  bool shows_averages_ = false;
  GradientNorms norms_;
  Arena<T> parameters_;
  std::vector<Arena<T>> slots_;
  Arena<T> accumulated_;
  bool shares_updates_ = false;
  T initial_slot_value_ = 0;
  UpdateShares shares_;
  int worker_ = 0;
  std::vector<Buffer> slot_shares_;
};

}}}  // namespace lockstep::detail

#if !defined(LOCKSTEP_COMPILED)
#include "lockstep/step/variables.ipp"
#endif
