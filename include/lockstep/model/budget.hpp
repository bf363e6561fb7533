// Budget: memory, work and traffic of a training step, as constants.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/collectives/reduction/early_ranges.hpp"
#include "lockstep/collectives/reduction/partition.hpp"
#include "lockstep/core/arena.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/core/shape.hpp"
#include "lockstep/core/variable.hpp"
#include "lockstep/layers/layer_info.hpp"
#include "lockstep/network/layer_at.hpp"
#include "lockstep/network/layer_place.hpp"
#include "lockstep/optimizers/concepts.hpp"
#include "lockstep/step/batch_memory.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI {

inline constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

/// What a step of training takes. Sizes are bytes that fit allocates for the model and a batch, in
/// a process with one replica. The program itself, its data, prefetched batches and what callbacks
/// keep come on top.
struct Budget {
  std::size_t samples = 0;                ///< of a rank in a step, at most
  std::size_t ranks = 1;                  ///< that share a batch
  std::size_t parameters = 0;             ///< numbers that are trained
  std::size_t constant_parameters = 0;    ///< other variables: moving statistics, Frozen layers
  std::size_t arena = 0;                  ///< the parameters, each variable padded to 64 bytes
  std::size_t gradients = 0;              ///< as large; a share with sharded_gradients
  std::size_t slots = 0;                  ///< the optimizer's, averages, accumulated gradients
  std::size_t state = 0;                  ///< variables that are not trained, and a copy of them
  std::size_t batch = 0;                  ///< samples, targets, predictions and their gradient
  std::size_t activations = 0;            ///< what layers keep from forward to backward
  std::size_t workspace = 0;              ///< what they need while they run
  std::size_t memory = 0;                 ///< all of these
  std::uint64_t flop = 0;                 ///< of the step's matrix products: see Flop
  std::string_view uncounted_layer = {};  ///< one that does not say its Flop; empty: all do
  /// Bytes that a rank sends in an all-reduce of the gradients round the ring, also with sharded
  /// updates. (Gradients of at most 512 KiB over all ranks are gathered instead.)
  std::size_t sent = 0;

  friend constexpr bool operator==(const Budget&, const Budget&) = default;
};

namespace detail {

/// The part of a Program's layout that decides the memory of a batch.
struct RowSizes {
  std::size_t inputs, targets, outputs, positions;
};

template <class LossType, class Out>
consteval std::size_t targets_of_row() {
  if constexpr (std::is_void_v<LossType>)
    return 1;
  else
    return LossType::template target_size<TokenOf<Out>>;
}

/// Elements of the largest share of the updates (see update_shares_of).
template <class O>
constexpr std::size_t largest_share(const O& optimizer, std::size_t elements, int ranks) {
  bool needs_others = false;
  if constexpr (requires { optimizer.updates_whole_variables; })
    needs_others = optimizer.updates_whole_variables;
  if constexpr (requires { optimizer.clipnorm; }) needs_others |= optimizer.clipnorm > 0;
  const Partition partition(elements, ranks);
  std::size_t largest = 0;
  for (int rank = 0; rank < ranks; ++rank)
    largest =
        std::max(largest, !needs_others && partition.is_fair()
                              ? partition.group_elements(rank)
                              : Arena<float>::part_of(elements, static_cast<std::size_t>(rank),
                                                      static_cast<std::size_t>(ranks))
                                    .second);
  return largest;
}

/// Parameters of the layer that has most of them.
constexpr std::size_t largest_layer(std::span<const LayerInfo> layers) {
  std::size_t largest = 0;
  for (const LayerInfo& layer : layers) {
    if (layer.is_frozen) continue;
    std::size_t size = 0;
    for (const Variable& variable : layer.variables) size += variable.size();
    largest = std::max(largest, layer.layers.empty() ? size : largest_layer(layer.layers));
  }
  return largest;
}

/// Elements of the gradients that a rank has at a time, where each keeps those of its share: these,
/// and what others take of the layer that has most of them and of two ranges that are reduced.
constexpr std::size_t gradient_share(std::size_t share, std::size_t elements, std::size_t largest,
                                     int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t ranges = 2 * EarlyRanges(elements, ranks).longest();
  return std::min(elements, share + (largest + ranges) * (count - 1) / count);
}

}  // namespace detail

/// The Budget of training Net with batches of `batch` samples of all ranks together, as a dataset's
/// batch() counts them. A constant where its arguments are, for the optimizers of the library.
/// `LossType`: needed if the loss does not take one target a row, as those of classes do. `T`: the
/// scalar type. `ranks`: processes of one replica each; at least 1. `sharded_updates`: as the
/// option of MultiWorkerMirroredStrategy; for an optimizer that updates whole variables it is an
/// estimate. `sharded_gradients`: likewise; what is written ahead of a reduction is an estimate
/// from above. LocalSGD and DiLoCo keep more than this.
/// @code
/// static_assert(ls::budget<Cnn>(64, ls::Adam{}).memory < 64 * ls::MiB);
/// std::cout << ls::budget<Cnn>(64, ls::Adam{}, 4);
/// @endcode
/// Use: `budget<Sequential<Input<20>, Dense<3>>>(64, Adam{}, 4)`. Keras: none.
template <class Net, class LossType = void, class T = float, class O>
[[nodiscard]] constexpr Budget budget(std::size_t batch, const O& optimizer, int ranks = 1,
                                      bool sharded_updates = false,
                                      bool sharded_gradients = false) {
  using In = typename Net::InputShape;
  static_assert(!std::is_void_v<In>,
                "lockstep: budget needs a model: a Sequential whose first layer is ls::Input");
  using Out = typename Net::template Output<In>;
  constexpr auto variables = detail::variables_of<Net, In>();
  constexpr auto constants = detail::state_variables_of<Net, In>();
  const auto count = static_cast<std::size_t>(ranks);
  Budget all{.samples = (batch + count - 1) / count, .ranks = count};
  for (const Variable& variable : variables) all.parameters += variable.size();
  for (const Variable& variable : constants) all.constant_parameters += variable.size();

  const std::size_t elements = Arena<T>::size_of(variables);
  const bool shares = (sharded_updates || sharded_gradients) && ranks > 1;
  const std::size_t share = shares ? detail::largest_share(optimizer, elements, ranks) : elements;
  std::size_t whole_slots = 0;
  if constexpr (requires { optimizer.use_ema; }) whole_slots += optimizer.use_ema ? 1 : 0;
  bool accumulates = false;
  if constexpr (requires { optimizer.gradient_accumulation_steps; })
    accumulates = optimizer.gradient_accumulation_steps > 1;
  whole_slots += accumulates ? 2 : 0;
  all.arena = all.gradients = elements * sizeof(T);
  if (shares && sharded_gradients && !accumulates)
    all.gradients = detail::gradient_share(share, elements,
                                           detail::largest_layer(Net::template layers<In>), ranks) *
                    sizeof(T);
  all.slots = (whole_slots * elements + optimizer.slots() * share) * sizeof(T);
  all.state = 2 * Arena<T>::size_of(constants) * sizeof(T);

  constexpr detail::RowSizes layout{.inputs = In::size,
                                    .targets = detail::targets_of_row<LossType, Out>(),
                                    .outputs = TokenOf<Out>::size,
                                    .positions = positions_of<Out>};
  all.batch = detail::elements_of(detail::batch_arrays(layout, all.samples)) * sizeof(T) +
              all.samples * layout.positions * detail::bytes_of_row<T>;
  all.activations = detail::scratch_of<Net, In>(all.samples) * sizeof(T);
  if constexpr (requires { Net::template temporary<In>(batch); })
    all.workspace = detail::temporary_of<Net, In>(all.samples) * sizeof(T);
  all.memory = all.arena + all.gradients + all.slots + all.state + all.batch + all.activations +
               all.workspace;

  constexpr Flop flop = detail::flop_of<Net, In>();
  all.flop = all.samples * (flop.forward + flop.backward_weights);
  all.uncounted_layer = flop.uncounted;
  for (int rank = 0; rank < ranks; ++rank)
    all.sent = std::max(all.sent, Partition(elements, ranks).sent_by(rank) * sizeof(T));
  return all;
}

/// The largest batch of all ranks together, in steps of `ranks` samples, for which a replica's
/// memory is at most `bytes`, as Lightning's BatchSizeFinder looks for; but at compile time, and
/// without a step that fails. 0: not even one sample a rank fits. Other parameters: as for budget.
/// Use: `largest_batch<Sequential<Input<20>, Dense<3>>>(512 * MiB, Adam{})`. Keras: none.
template <class Net, class LossType = void, class T = float, class O>
[[nodiscard]] constexpr std::size_t largest_batch(std::size_t bytes, const O& optimizer,
                                                  int ranks = 1, bool sharded_updates = false,
                                                  bool sharded_gradients = false) {
  if (ranks < 1) throw ConfigurationError("largest_batch: ranks must be at least 1");
  const auto count = static_cast<std::size_t>(ranks);
  const auto fits = [&](std::size_t samples) {
    return budget<Net, LossType, T>(samples * count, optimizer, ranks, sharded_updates,
                                    sharded_gradients)
               .memory <= bytes;
  };
  std::size_t most = 0, step = 1;
  while (step < (std::size_t{1} << 40) && fits(step)) step *= 2;
  for (; step > 0; step /= 2)
    if (fits(most + step)) most += step;
  return most * count;
}

/// A table: a line for each part, in MiB, then the work and the traffic of a step.
inline std::ostream& operator<<(std::ostream& out, const Budget& budget) {
  const auto tenths = [](double value) {
    const auto whole = static_cast<std::uint64_t>(value * 10 + 0.5);
    return std::to_string(whole / 10) + '.' + std::to_string(whole % 10);
  };
  const auto line = [&](std::string_view name, double value, std::string_view unit) {
    const std::string number = tenths(value);
    out << name << std::string(48 - std::min<std::size_t>(48, name.size() + number.size()), ' ')
        << number << ' ' << unit << '\n';
  };
  out << budget.parameters << " parameters are trained, " << budget.constant_parameters
      << " are not; " << budget.samples << " samples a step on each of " << budget.ranks
      << (budget.ranks == 1 ? " rank\n" : " ranks\n");
  const auto bytes = [&](std::string_view name, std::size_t size) {
    line(name, static_cast<double>(size) / static_cast<double>(MiB), "MiB");
  };
  bytes("parameters", budget.arena);
  bytes("gradients", budget.gradients);
  bytes("slots of the optimizer", budget.slots);
  bytes("variables that are not trained", budget.state);
  bytes("batch", budget.batch);
  bytes("activations", budget.activations);
  bytes("workspace of the layers", budget.workspace);
  bytes("memory", budget.memory);
  line("products of a step", static_cast<double>(budget.flop) * 1e-6, "MFLOP");
  if (!budget.uncounted_layer.empty())
    out << "  (not counted: " << budget.uncounted_layer << ", which has no member `flop`)\n";
  bytes("sent in a step", budget.sent);
  return out;
}

}}  // namespace lockstep
