#pragma once

#include <cmath>
#include <iterator>
#include <type_traits>

#include "lockstep/core/crc.hpp"
#include "lockstep/kernels/random.hpp"
#include "lockstep/kernels/sweep.hpp"
#include "lockstep/step/variables.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// values[i] = what number i of RandomStream(key).uniform(low, high) is.
template <class T>
void fill_uniform(RandomKey key, double low, double high, std::span<T> values) {
  double numbers[512];
  for (std::size_t begin = 0; begin < values.size(); begin += std::size(numbers)) {
    const std::span<T> part =
        values.subspan(begin).first(std::min(std::size(numbers), values.size() - begin));
    kernels::dispatch(
        kernels::UniformNumbers{key.value(), begin / 2, (part.size() + 15) / 16 * 8, numbers});
    for (std::size_t i = 0; i < part.size(); ++i)
      part[i] = static_cast<T>(low + (high - low) * numbers[i]);
  }
}

LOCKSTEP_INLINE void GradientNorms::set_squares(double squares) noexcept {
  for (Block& block : blocks_) block.squares = 0;
  if (!blocks_.empty()) blocks_.front().squares = squares;
}

LOCKSTEP_INLINE double GradientNorms::norm(std::size_t begin, std::size_t end) const {
  double sum = 0;
  for (auto block = std::ranges::lower_bound(blocks_, begin, {}, &Block::begin);
       block != blocks_.end() && block->begin < end; ++block)
    sum += block->squares;
  return std::sqrt(sum);
}

LOCKSTEP_INLINE void UpdateShares::add(
    const std::vector<std::pair<std::size_t, std::size_t>>& begins_and_sizes) {
  std::vector<SharePiece>& pieces = of_workers_.emplace_back();
  std::size_t place = 0;
  for (const auto& [begin, size] : begins_and_sizes) {
    pieces.push_back({.begin = begin, .size = size, .place = place});
    place += size;
  }
}

LOCKSTEP_INLINE std::size_t UpdateShares::size(int worker) const noexcept {
  const auto pieces = of(worker);
  return pieces.empty() ? 0 : pieces.back().place + pieces.back().size;
}

LOCKSTEP_INLINE void UpdateShares::each_other(int worker, std::size_t begin, std::size_t size,
                                              FunctionRef<void(std::size_t, std::size_t)> f) const {
  const std::size_t end = begin + size;
  const auto pieces = of(worker);
  auto next = std::ranges::upper_bound(pieces, begin, {}, &SharePiece::begin);
  if (next != pieces.begin()) --next;
  for (; next != pieces.end() && next->begin < end; ++next) {
    if (begin < next->begin) f(begin, next->begin - begin);
    begin = std::max(begin, next->begin + next->size);
  }
  if (begin < end) f(begin, end - begin);
}

LOCKSTEP_INLINE std::size_t UpdateShares::place(int worker, std::size_t element) const noexcept {
  const auto pieces = of(worker);
  const auto next = std::ranges::upper_bound(pieces, element, {}, &SharePiece::begin);
  const SharePiece& piece = *std::prev(next);
  return piece.place + (element - piece.begin);
}

template <class T>
void initialize(std::span<const Variable> variables, std::span<const std::span<T>> slices,
                RandomKey key) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Variable& variable = variables[i];
    if (const auto limits = variable.initializer.uniform_limits(variable.fans)) {
      fill_uniform(key.fold_in(i), limits->first, limits->second, slices[i]);
    } else {
      RandomStream random(key.fold_in(i));
      variable.initializer.fill(random, variable.shape(), variable.fans, slices[i]);
    }
  }
}

template <class T>
Variables<T>::Variables(const Program<T>& program, const Synchronization& synchronization,
                        bool shares_updates)
    : program_(program),
      synchronization_(synchronization),
      learning_rate_(program.initial_learning_rate()),
      parameters_(new_arena()),
      shares_updates_(shares_updates),
      initial_slot_value_(static_cast<T>(program.initial_slot_value())) {
  const UpdateRules rules = program.update_rules();
  slots_.reserve(program.layout().slots + 2);
  for (std::size_t i = 0; i < program.layout().slots && !shares_updates; ++i) {
    slots_.push_back(new_arena());
    if (initial_slot_value_ != T(0))
      for (const std::span<T> slice : slots_.back().slices())
        std::fill(slice.begin(), slice.end(), initial_slot_value_);
  }
  averaging_ = rules.averaging;
  if (has_averages()) slots_.push_back(new_arena());
  if (synchronization.momentum() != 0) slots_.push_back(new_arena());
  accumulation_steps_ = rules.accumulation_steps;
  if (accumulation_steps_ > 1) accumulated_ = new_arena();
  schedule_ = rules.schedule;
  clipping_ = rules.clipping;
  loss_scale = initial_loss_scale();
  if (needs_norms()) norms_ = GradientNorms(parameters_);
  whole_variables_ = rules.whole_variables;
  if (whole_variables_) names_ = program.names().variables;
  ranges_.emplace_back();
  for (std::size_t i = rules.variables.size(); i > 0;
       --i) {  // the last variable is the first in the arena
    const auto begin =
        static_cast<std::size_t>(parameters_.slices()[i - 1].data() - parameters_.values().data());
    if (begin == 0)
      ranges_.back() = {.variable = i - 1, .rule = rules.variables[i - 1]};
    else if (clipping_.clipnorm > 0 || whole_variables_ ||
             ranges_.back().rule != rules.variables[i - 1])
      ranges_.push_back({.begin = begin, .variable = i - 1, .rule = rules.variables[i - 1]});
  }
}

template <class T>
Arena<T> Variables<T>::new_arena() const {
  return Arena<T>(program_.layout().variables,
                  [&](std::size_t bytes) { return program_.allocate(bytes); });
}

template <class T>
void Variables<T>::allocate_parameters(Allocate allocate) {
  parameters_ = {};  // so that there never is memory for both
  parameters_ = Arena<T>(program_.layout().variables, allocate);
}

template <class T>
void Variables<T>::swap_parameters(Arena<T>& arena) noexcept {
  std::swap(parameters_, arena);
}

template <class T>
std::uint32_t Variables<T>::parameters_crc32c() const {
  std::uint32_t crc = 0;
  for (const std::span<T> slice : parameters_.slices()) crc = crc32c(std::as_bytes(slice), crc);
  return crc;
}

template <class T>
void Variables<T>::update(std::span<T> parameters, std::span<const T> gradients, std::size_t begin,
                          double rows, std::int64_t iteration) {
  const double all = clipping_.global_clipnorm > 0 ? norms_.norm() / rows : 0;
  auto next = std::ranges::upper_bound(ranges_, begin, {}, &UpdateRange::begin);
  for (std::size_t done = 0; done < parameters.size();) {
    const UpdateRange& range = *std::prev(next);
    const std::size_t range_end =
        next == ranges_.end() ? parameters_.values().size() : (next++)->begin;
    const std::size_t end = std::min(parameters.size(), range_end - begin);
    UpdateContext context{
        .iteration = iteration,
        .learning_rate = learning_rate_of(iteration - 1) * range.rule.learning_rate_factor,
        .previous_learning_rate = previous_learning_rate * range.rule.learning_rate_factor,
        .gradient_scale = 1.0 / rows,
        .decays = range.rule.decays};
    if (clipping_.clipnorm > 0)
      context.gradient_scale *=
          clipping_factor(norms_.norm(range.begin, range_end) / rows, clipping_.clipnorm);
    if (clipping_.global_clipnorm > 0)
      context.gradient_scale *= std::isfinite(all) ? clipping_factor(all, clipping_.global_clipnorm)
                                                   : std::numeric_limits<double>::quiet_NaN();
    std::size_t size = end - done;
    if (whole_variables_) {
      context.variable = &program_.layout().variables[range.variable];
      context.variable_name = names_[range.variable];
      size = context.variable->size();  // without the zeros behind it
    }
    sweep(context, parameters.subspan(done, size), gradients.subspan(done, size), begin + done);
    done = end;
  }
  program_.synchronize();
  if (!shares_updates_) average(parameters, begin, iteration);
}

template <class T>
void Variables<T>::average(std::span<T> parameters, std::size_t begin, std::int64_t iteration) {
  if (!has_averages()) return;
  T* const averages = this->averages().data() + begin;
  const double momentum = iteration == 1 ? 0 : averaging_.momentum;
  const T old = static_cast<T>(momentum), fresh = static_cast<T>(1 - momentum);
  const auto step = [=](auto& mean, const auto& w)
                        LOCKSTEP_KERNEL_LAMBDA { mean = old * mean + fresh * w; };
  kernels::sweep(parameters.size(), step, averages, static_cast<const T*>(parameters.data()));
  if (averaging_.overwrite_frequency > 0 && iteration % averaging_.overwrite_frequency == 0)
    std::copy_n(averages, parameters.size(), parameters.data());
}

template <class T>
void Variables<T>::complete_update(std::int64_t iteration, bool has_updated, bool has_overflowed) {
  advance(loss_scale, has_overflowed);
  if (has_updated)
    previous_learning_rate = learning_rate_of(iteration - 1);
  else if (iteration == 1 && has_averages() && !has_overflowed)  // a batch of which no row counts
    std::ranges::copy(parameters_.values(), averages().begin());
  iterations = iteration;
  if (accumulated_steps == 0) return;
  std::ranges::fill(accumulated_.values(), T(0));
  accumulated_steps = 0;
  accumulated_rows = 0;
}

template <class T>
void Variables<T>::take_over(const Variables& other) {
  std::ranges::copy(other.parameters_.values(), parameters_.values().begin());
  for (std::size_t i = own_slots(); i < slots_.size(); ++i)
    std::ranges::copy(other.slots_[i].values(), slots_[i].values().begin());
  learning_rate_ = other.learning_rate_;
  previous_learning_rate = other.previous_learning_rate;
  iterations = other.iterations;
  seed = other.seed;
  shows_averages_ = other.shows_averages_;
}

template <class T>
void Variables<T>::swap_averages() {
  if (!has_averages()) return;
  const std::span<T> averages = this->averages();
  if (iterations == 0)
    std::ranges::copy(parameters_.values(), averages.begin());
  else
    std::ranges::swap_ranges(parameters_.values(), averages);
  shows_averages_ = !shows_averages_;
}

template <class T>
void Variables<T>::take_averages() {
  if (!has_averages() || iterations == 0) return;
  if (shows_averages_) swap_averages();
  std::ranges::copy(averages(), parameters_.values().begin());
}

template <class T>
std::pair<std::size_t, std::size_t> Variables<T>::part(std::size_t index,
                                                       std::size_t count) const noexcept {
  if (!whole_variables_) return parameters_.part(index, count);
  const auto begin_of = [&](std::size_t i) {
    const std::size_t range = ranges_.size() * i / count;
    return range == ranges_.size() ? parameters_.values().size() : ranges_[range].begin;
  };
  return {begin_of(index), begin_of(index + 1) - begin_of(index)};
}

template <class T>
void Variables<T>::share_updates(UpdateShares shares, int worker) {
  shares_updates_ = true;
  shares_ = std::move(shares);
  worker_ = worker;
  slot_shares_.clear();
  for (std::size_t i = 0; i < program_.layout().slots; ++i) {
    slot_shares_.push_back(program_.allocate(shares_.size(worker) * sizeof(T)));
    if (initial_slot_value_ == T(0)) continue;
    for (const SharePiece& piece : shares_.of(worker))
      for (const std::span<T> slice : parameters_.slices()) {
        const auto begin = static_cast<std::size_t>(slice.data() - parameters_.values().data());
        const std::size_t first = std::max(begin, piece.begin);
        const std::size_t end = std::min(begin + slice.size(), piece.begin + piece.size);
        if (first < end)
          std::fill_n(slot_share(i).data() + piece.place + (first - piece.begin), end - first,
                      initial_slot_value_);
      }
  }
}

template <class T>
void Variables<T>::each_range_of_share(std::size_t index, std::size_t count,
                                       FunctionRef<void(std::size_t, std::size_t)> f) const {
  if (whole_variables_) {
    std::size_t number = 0;
    for (const SharePiece& piece : shares_.of(worker_))
      for (auto range = std::ranges::lower_bound(ranges_, piece.begin, {}, &UpdateRange::begin);
           range != ranges_.end() && range->begin < piece.begin + piece.size; ++range) {
        const auto next = std::next(range);
        const std::size_t end = next == ranges_.end() ? parameters_.values().size() : next->begin;
        if (number++ % count == index) f(range->begin, end - range->begin);
      }
    return;
  }
  constexpr std::size_t grain = Arena<T>::slice_multiple;
  const std::size_t grains = shares_.size(worker_) / grain;
  const std::size_t first = grains * index / count * grain;
  const std::size_t last = grains * (index + 1) / count * grain;
  for (const SharePiece& piece : shares_.of(worker_)) {
    const std::size_t from = std::max(first, piece.place);
    const std::size_t to = std::min(last, piece.place + piece.size);
    if (from < to) f(piece.begin + (from - piece.place), to - from);
  }
}

template <class T>
T* Variables<T>::slot(std::size_t number, std::size_t element) noexcept {
  return shares_updates_ ? slot_share(number).data() + shares_.place(worker_, element)
                         : slots_[number].values().data() + element;
}

template <class T>
void Variables<T>::sweep(UpdateContext context, std::span<T> parameters,
                         std::span<const T> gradients, std::size_t begin) {
  constexpr std::size_t piece = 2048;
  alignas(cache_line) T clipped[piece];
  const T scale = static_cast<T>(context.gradient_scale),
          limit = static_cast<T>(clipping_.clipvalue);
  const bool leaves_clipping = whole_variables_ || program_.device() != nullptr;
  if (leaves_clipping && clipping_.clipvalue > 0) context.gradient_limit = clipping_.clipvalue;
  const bool clips = clipping_.clipvalue > 0 && !leaves_clipping;
  if (clips) context.gradient_scale = 1;
  for (std::size_t done = 0; done < parameters.size();) {
    const std::size_t size = clips ? std::min(piece, parameters.size() - done) : parameters.size();
    if (clips)
      kernels::sweep(
          size,
          [=](auto& to, const auto& gradient) LOCKSTEP_KERNEL_LAMBDA {
            using P = std::remove_cvref_t<decltype(to)>;
            to = max(P(-limit), min(P(limit), P(scale) * gradient));  // NaN stays NaN
          },
          clipped, gradients.data() + done);
    T* slots[Program<T>::max_slots] = {};
    for (std::size_t i = 0; i < program_.layout().slots; ++i) slots[i] = slot(i, begin + done);
    program_.update(context, parameters.subspan(done, size),
                    clips ? std::span<const T>(clipped, size) : gradients.subspan(done, size),
                    std::span<T* const>(slots, program_.layout().slots));
    done += size;
  }
}

LOCKSTEP_INSTANCE(class Variables<LOCKSTEP_REAL>);
LOCKSTEP_INSTANCE(void initialize(std::span<const Variable>,
                                  std::span<const std::span<LOCKSTEP_REAL>>, RandomKey));
}}}  // namespace lockstep::detail
